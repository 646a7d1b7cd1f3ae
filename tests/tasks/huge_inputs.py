# expect: too_large
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x @ x.T


def get_inputs():
    return [torch.rand(1 << 20, 1 << 17)]


def get_init_inputs():
    return []
