import torch
import torch.nn as nn


class Model(nn.Module):
    """RMS normalisation, as it is written by hand."""

    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)


def get_inputs():
    return [torch.rand(32, 65536) + 0.2]


def get_init_inputs():
    return [1e-5]
