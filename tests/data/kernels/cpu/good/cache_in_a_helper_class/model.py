import torch
import torch.nn as nn
import torch.nn.functional as F


class StaticCache:
    """Keys and values of earlier tokens, as transformers and gpt-fast keep them."""

    def __init__(self, batch, heads, length, dim):
        self.k = torch.zeros(batch, heads, length, dim)
        self.v = torch.zeros(batch, heads, length, dim)

    def update(self, start, k, v):
        end = start + k.shape[2]
        self.k[:, :, start:end] = k
        self.v[:, :, start:end] = v
        return self.k[:, :, :end], self.v[:, :, :end]


class Model(nn.Module):
    def __init__(self, batch, heads, length, dim):
        super().__init__()
        self.cache = StaticCache(batch, heads, length, dim)

    def forward(self, q, k, v):
        k, v = self.cache.update(0, k, v)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(2, 4, 48, 32) for _ in range(3)]


def get_init_inputs():
    return [2, 4, 128, 32]
