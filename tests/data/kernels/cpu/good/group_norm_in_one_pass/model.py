import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.group_norm(x, 8)


def get_inputs():
    return [torch.rand(4, 64, 64, 64)]


def get_init_inputs():
    return []
