import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, scores, allowed):
        return torch.logsumexp(scores.masked_fill(~allowed, float("-inf")), dim=-1)


def get_inputs():
    allowed = torch.rand(2048, 256) < 0.5
    allowed[::64] = False
    return [torch.randn(2048, 256), allowed]


def get_init_inputs():
    return []
