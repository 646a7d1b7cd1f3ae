import torch
import torch.nn as nn


class Model(nn.Module):
    """Which interval of its own row each number lies in; rows have 40 to 120 knots."""

    def forward(self, x, knots):
        return torch.searchsorted(knots, x)


def get_inputs():
    count = torch.randint(40, 121, (256, 1))
    knots = torch.sort(torch.rand(256, 128), dim=1).values
    knots = knots.masked_fill(torch.arange(128) >= count, float("inf"))
    return [torch.rand(256, 512), knots]


def get_init_inputs():
    return []
