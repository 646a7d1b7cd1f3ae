import torch
import torch.nn as nn


class Model(nn.Module):
    """Splits a sequence into heads and blocks for blockwise attention."""

    def __init__(self, heads, block):
        super().__init__()
        self.heads = heads
        self.block = block

    def forward(self, x):
        b, t, d = x.shape
        h = x.view(b, t // self.block, self.block, self.heads, d // self.heads)
        return h.permute(0, 3, 1, 2, 4)


batch_size = 8
steps = 512
features = 512


def get_inputs():
    return [torch.randn(batch_size, steps, features)]


def get_init_inputs():
    return [8, 64]
