import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, s):
        return torch.clamp(torch.round(x / s), -128, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(256, 1024), torch.rand(256, 1) * 0.02 + 0.03]


def get_init_inputs():
    return []
