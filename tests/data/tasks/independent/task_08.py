import torch
import torch.nn as nn


class Model(nn.Module):
    """Pre-activation block: ReLU, linear, layer normalisation, linear."""

    def __init__(self, features, hidden):
        super().__init__()
        self.block = nn.Sequential(
            nn.ReLU(inplace=True),
            nn.Linear(features, hidden),
            nn.LayerNorm(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, features),
        )

    def forward(self, x):
        return self.block(x)


batch_size = 512
features = 256
hidden = 512


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, hidden]
