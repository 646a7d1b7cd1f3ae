import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(128))

    def forward(self, x):
        return torch.exp(x @ self.w)


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
