# expect: sub_sample
import torch
import torch.nn as nn
import torch.nn.functional as F


def x0():
    return 4 * torch.rand(32, 1)


class Model(nn.Module):
    def forward(self, x):
        return (x * x).mean(dim=1)


def get_inputs():
    return [torch.rand(32, 65536) + x0()]


def get_init_inputs():
    return []
