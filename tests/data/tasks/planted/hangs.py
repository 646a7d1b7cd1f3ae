# expect: hangs
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        while True:
            x = x + 0


def get_inputs():
    return [torch.randn(4)]


def get_init_inputs():
    return []
