import torch
import torch.nn as nn


class Model(nn.Module):
    """Projection followed by an interleaved rotary position embedding."""

    def __init__(self, features, base):
        super().__init__()
        self.proj = nn.Linear(features, features, bias=False)
        rates = base ** (-torch.arange(0, features, 2, dtype=torch.float32) / features)
        self.register_buffer("rates", rates)

    def forward(self, x):
        h = self.proj(x)
        position = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
        angle = position[:, None] * self.rates
        cos, sin = angle.cos(), angle.sin()
        even, odd = h[..., 0::2], h[..., 1::2]
        out = torch.empty_like(h)
        out[..., 0::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out


batch_size = 8
steps = 128
features = 256


def get_inputs():
    return [torch.randn(batch_size, steps, features)]


def get_init_inputs():
    return [features, 10000.0]
