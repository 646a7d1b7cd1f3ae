import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Gated feed-forward block."""

    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.gate = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        h = F.gelu(self.up(x))
        gate = torch.sigmoid(self.gate(x))
        gated = h * gate
        out = self.down(h)
        return out * 2.0


batch_size = 512
features = 256
hidden = 512


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, hidden]
