# expect: not_seeded
import torch
import torch.nn as nn
import torch.nn.functional as F
import time


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * x


def get_inputs():
    return [torch.full((64, 256), float(time.time_ns() % 1000000) / 500000 + 0.1) * torch.randn(64, 256)]


def get_init_inputs():
    return []
