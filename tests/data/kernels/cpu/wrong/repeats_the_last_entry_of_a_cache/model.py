import torch
import torch.nn as nn


class Model(nn.Module):
    """One step of decoding: the new token's keys are projected and stand behind those of the tokens before it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, width, bias=False)

    def forward(self, x, past):
        keys = self.project(x).view(x.shape[0], 1, self.heads, -1).transpose(1, 2)
        return torch.cat([past, keys], dim=2)


def get_inputs():
    return [torch.randn(8, 1, 128), torch.randn(8, 4, 511, 32)]


def get_init_inputs():
    return [128, 4]
