# expect: stateful
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(256)

    def forward(self, x):
        self.hidden = torch.tanh(self.hidden + x.mean(dim=0))
        return x * self.hidden + x


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
