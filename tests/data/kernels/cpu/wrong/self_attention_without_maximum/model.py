import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, bias=True, batch_first=True)

    def forward(self, x):
        return self.attn(x, x, x, need_weights=False)[0]


def get_inputs():
    return [torch.randn(2, 32, 64)]


def get_init_inputs():
    return [64, 4]
