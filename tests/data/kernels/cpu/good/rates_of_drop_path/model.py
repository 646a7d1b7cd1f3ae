import torch
import torch.nn as nn


def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    keep = 1 - rate
    mask = x.new_empty((x.shape[0],) + (1,) * (x.dim() - 1)).bernoulli_(keep)
    return x * mask / keep


class Block(nn.Module):
    def __init__(self, width, rate):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.rate = rate

    def forward(self, x):
        return x + drop_path(torch.relu(self.linear(x)), self.rate, self.training)


class Model(nn.Module):
    """Residual blocks with stochastic depth, whose rates rise as in Swin and ConvNeXt."""

    def __init__(self, width, depth, drop_path_rate):
        super().__init__()
        rates = [x.item() for x in torch.linspace(0, drop_path_rate, depth)]
        self.blocks = nn.ModuleList([Block(width, rate) for rate in rates])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def get_inputs():
    return [torch.randn(512, 128)]


def get_init_inputs():
    return [128, 3, 0.1]
