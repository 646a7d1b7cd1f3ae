# expect: uniform_axes
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=1, keepdim=True).expand(-1, 256) * 1.0


def get_inputs():
    return [torch.randn(64, 256) + 3 * torch.randn(64, 1)]


def get_init_inputs():
    return []
