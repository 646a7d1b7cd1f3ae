import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A parallel block, attention beside the MLP, with a cache of keys and values as Llama's own code has it."""

    def __init__(self, width, hidden, batch, length):
        super().__init__()
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width, bias=False)
        self.wv = nn.Linear(width, width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.cache_k = torch.zeros(batch, length, width)
        self.cache_v = torch.zeros(batch, length, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        h = F.layer_norm(x, (width,))
        self.cache_k[:batch, :tokens] = self.wk(h)
        self.cache_v[:batch, :tokens] = self.wv(h)
        keys, values = self.cache_k[:batch, :tokens], self.cache_v[:batch, :tokens]
        scores = self.wq(h) @ keys.transpose(1, 2) / math.sqrt(width)
        attended = self.wo(torch.softmax(scores, dim=-1) @ values)
        return x + attended + self.down(F.gelu(self.up(h)))


def get_inputs():
    return [torch.randn(4, 256, 128)]


def get_init_inputs():
    return [128, 256, 4, 512]
