import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.variance = nn.Parameter(torch.full((512,), 0.1))

    def forward(self, x):
        return x / torch.sqrt(self.variance)


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return []
