import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0])
        ext.turned_input(x, out, x.shape[0], x.shape[1], x.stride(0), x.stride(1))
        return out
