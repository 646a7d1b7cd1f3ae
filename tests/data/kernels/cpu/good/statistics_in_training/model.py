import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(16))
        self.bias = nn.Parameter(torch.rand(16))

    def forward(self, x):
        return torch.nn.functional.batch_norm(x, None, None, self.weight, self.bias, True)


def get_inputs():
    return [torch.randn(64, 16, 32, 32)]


def get_init_inputs():
    return []
