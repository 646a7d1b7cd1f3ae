import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Single-head attention with an additive score bias and an output projection."""

    def __init__(self, features):
        super().__init__()
        self.query = nn.Linear(features, features)
        self.key = nn.Linear(features, features, bias=False)
        self.value = nn.Linear(features, features)
        self.scale = 4.0 / math.sqrt(features)

    def forward(self, x, bias):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = torch.bmm(q, k.transpose(1, 2)) * self.scale
        scores = scores + bias.unsqueeze(-1)
        return torch.bmm(torch.softmax(scores, dim=-1), v)


batch_size = 4
steps = 128
features = 192


def get_inputs():
    return [torch.randn(batch_size, steps, features), torch.randn(batch_size, steps)]


def get_init_inputs():
    return [features]
