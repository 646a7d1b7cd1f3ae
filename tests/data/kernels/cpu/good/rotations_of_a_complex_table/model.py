import torch
import torch.nn as nn
import torch.nn.functional as F


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, device=freqs.device)
    freqs = torch.outer(t, freqs).float()
    return torch.polar(torch.ones_like(freqs), freqs)


class Model(nn.Module):
    def __init__(self, head_dim, max_seq_len):
        super().__init__()
        self.freqs_cis = precompute_freqs_cis(head_dim, max_seq_len)

    def forward(self, xq, start_pos: int):
        freqs_cis = self.freqs_cis[start_pos : start_pos + xq.shape[1]]
        xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
        freqs_cis = freqs_cis.view(1, xq_.shape[1], 1, xq_.shape[-1])
        return torch.view_as_real(xq_ * freqs_cis).flatten(3).type_as(xq)


def get_inputs():
    return [torch.randn(2, 128, 4, 64), 1800]


def get_init_inputs():
    return [64, 2048]
