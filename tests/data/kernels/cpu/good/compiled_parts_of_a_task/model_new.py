import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)

    def forward(self, x):
        y, out = torch.empty_like(x), torch.empty_like(x)
        ext.product(x, self.first.weight, self.first.bias, y, x.shape[0], x.shape[1])
        ext.gate(x, y, out, x.numel())
        return out
