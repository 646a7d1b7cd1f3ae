import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, index):
        return x[index]


def get_inputs():
    return [torch.randn(1 << 23), torch.randint(0, 1 << 23, (1 << 22,))]


def get_init_inputs():
    return []
