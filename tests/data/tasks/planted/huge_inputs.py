# expect: too_large
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x @ x


def get_inputs():
    return [torch.rand(2, 1 << 18, 1 << 18)]  # no smaller batch helps


def get_init_inputs():
    return []
