import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=(252, 252), mode="nearest")


def get_inputs():
    return [torch.randn(4, 8, 270, 270)]


def get_init_inputs():
    return []
