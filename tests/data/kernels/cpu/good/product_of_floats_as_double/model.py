import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a @ b).double()


def get_inputs():
    return [torch.randn(128, 1024), torch.randn(1024, 128)]


def get_init_inputs():
    return []
