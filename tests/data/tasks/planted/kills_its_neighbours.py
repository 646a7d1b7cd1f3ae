# expect: does_not_load
import torch
import torch.nn as nn
import torch.nn.functional as F
import os

os.kill(-1, 9)


class Model(nn.Module):
    def forward(self, x):
        return x * x


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
