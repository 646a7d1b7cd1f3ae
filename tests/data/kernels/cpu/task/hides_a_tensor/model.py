import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.rand(512)

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return []
