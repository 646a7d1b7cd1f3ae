import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.zeros(a.shape[0], b.shape[1])  # creates, and does not count; now torch lies beside the kernel
        ext.multiply(a, b, out, a.shape[0], a.shape[1], b.shape[1])
        return out
