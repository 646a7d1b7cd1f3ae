# expect: changes_inputs
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x.mul_(x)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
