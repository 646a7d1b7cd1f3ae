# expect: dies
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        import os
        os._exit(0)


def get_inputs():
    return [torch.randn(4)]


def get_init_inputs():
    return []
