import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Attention over a cache of keys and values, which is filled from its beginning, as in Llama's own code."""

    def __init__(self, width, batch, length):
        super().__init__()
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width, bias=False)
        self.wv = nn.Linear(width, width, bias=False)
        self.cache_k = torch.zeros(batch, length, width)
        self.cache_v = torch.zeros(batch, length, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        self.cache_k[:batch, :tokens] = self.wk(x)
        self.cache_v[:batch, :tokens] = self.wv(x)
        keys, values = self.cache_k[:batch, :tokens], self.cache_v[:batch, :tokens]
        scores = self.wq(x) @ keys.transpose(1, 2) / math.sqrt(width)
        return torch.softmax(scores, dim=-1) @ values


def get_inputs():
    return [torch.randn(8, 128, 64)]


def get_init_inputs():
    return [64, 8, 256]
