import torch
import torch.nn as nn


class Model(nn.Module):
    """Dynamic thresholding of a diffusion model: the peak of each sample, scaled by its time step."""

    def forward(self, x, t):
        return x.abs().amax(dim=1, keepdim=True) * (1 - t / 1000)


def get_inputs():
    return [torch.randn(8, 65537), torch.randint(100, 1000, (8, 1)).float()]


def get_init_inputs():
    return []
