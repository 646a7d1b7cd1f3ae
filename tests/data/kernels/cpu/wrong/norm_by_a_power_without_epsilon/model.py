import torch
import torch.nn as nn


class Model(nn.Module):
    """RMS normalisation by a power, as some write it."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + self.eps) ** -0.5 * self.weight


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return [1024, 1e-6]
