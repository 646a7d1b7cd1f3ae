# expect: hidden_state: 'scale'
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.rand(256)

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(64, 256)]
