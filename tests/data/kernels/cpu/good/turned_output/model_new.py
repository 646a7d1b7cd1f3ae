import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        ext.turned_output(x, out, x.numel())
        return out.t()
