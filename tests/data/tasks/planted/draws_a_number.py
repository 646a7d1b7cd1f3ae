# expect: varies: 'scale' is the number
import random

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, scale):
        return torch.tanh(x) * scale


def get_inputs():
    return [torch.randn(64, 256), random.random()]
