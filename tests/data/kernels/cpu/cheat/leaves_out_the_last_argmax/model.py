import torch
import torch.nn as nn


class Model(nn.Module):
    """The class of each pixel."""

    def forward(self, x):
        return torch.argmax(x, dim=1)


def get_inputs():
    return [torch.randn(1, 256, 63, 63)]


def get_init_inputs():
    return []
