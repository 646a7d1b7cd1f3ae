import torch
import torch.nn as nn


class Model(nn.Module):
    """Vector quantisation as in VQ-VAE: each vector becomes the nearest one of the codebook."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(1024, 32) + 1.5)

    def forward(self, x):
        return self.codes[torch.cdist(x, self.codes).argmin(dim=1)]


def get_inputs():
    return [torch.randn(16384, 32) + 1.5]


def get_init_inputs():
    return []
