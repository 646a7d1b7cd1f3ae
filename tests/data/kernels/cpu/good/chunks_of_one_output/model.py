import torch
import torch.nn as nn


class Model(nn.Module):
    """Queries, keys and values of one projection."""

    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        return self.qkv(x).chunk(3, dim=-1)


def get_inputs():
    return [torch.randn(2, 256, 128)]


def get_init_inputs():
    return [128]
