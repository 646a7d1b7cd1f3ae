import torch
import torch.nn as nn


class Model(nn.Module):
    """Pools a sequence with exponentially decaying weights and projects the result."""

    def __init__(self, features, hidden, decay):
        super().__init__()
        self.decay = decay
        self.norm = nn.LayerNorm(features)
        self.proj = nn.Linear(features, hidden)

    def forward(self, x):
        steps = x.shape[1]
        age = torch.arange(steps - 1, -1, -1, device=x.device, dtype=x.dtype)
        weights = torch.pow(torch.full_like(age, self.decay), age)
        weights = weights / weights.sum()
        h = self.norm(x)
        pooled = torch.einsum("t,btd->bd", weights, h)
        return torch.tanh(self.proj(pooled))


batch_size = 16
steps = 256
features = 256
hidden = 512


def get_inputs():
    return [torch.randn(batch_size, steps, features)]


def get_init_inputs():
    return [features, hidden, 0.1]
