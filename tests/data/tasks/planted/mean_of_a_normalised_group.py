# expect: null
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(8, 32)

    def forward(self, x):
        return self.norm(x).mean(dim=(1, 2))


def get_inputs():
    return [torch.rand(16, 32, 64)]


def get_init_inputs():
    return []
