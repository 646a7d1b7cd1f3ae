import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(16))
        self.bias = nn.Parameter(torch.rand(16))

    def forward(self, x):
        out = torch.empty_like(x)
        ext.statistics_in_training(x, self.weight, self.bias, out, x.shape[0], x.shape[1], x.shape[2] * x.shape[3])
        return out
