import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.clamp(torch.round(x * 24), -127, 127) / 24


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
