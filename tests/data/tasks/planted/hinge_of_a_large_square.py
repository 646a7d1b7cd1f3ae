# expect: null: constant
import torch
import torch.nn as nn


class Model(nn.Module):
    """Too large as it is, and the labels lie along the last dimension, so that no smaller batch fits them: both
    dimensions must shrink together."""

    def forward(self, scores, labels):
        return torch.mean(torch.clamp(1 - scores * labels, min=0))


def get_inputs():
    return [torch.rand(16384, *(16384,)), torch.randint(0, 2, (16384,)).float() * 2 - 1]


def get_init_inputs():
    return []
