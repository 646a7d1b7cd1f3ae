import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return ((x * x).sum(1)[:, None] + (x * x).sum(1)[None] - 2 * x @ x.t()).clamp(min=0).sqrt()


def get_inputs():
    return [torch.randn(48, 32)]


def get_init_inputs():
    return []
