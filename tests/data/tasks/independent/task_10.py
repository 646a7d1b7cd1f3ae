import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """Random Fourier features followed by a linear read-out."""

    def __init__(self, features, width, outputs):
        super().__init__()
        self.register_buffer("directions", torch.randn(features, width) / math.sqrt(features))
        self.register_buffer("phases", torch.rand(width) * 2 * math.pi)
        self.readout = nn.Linear(width, outputs)

    def forward(self, x):
        h = torch.cos(torch.matmul(x, self.directions) + self.phases)
        return self.readout(h)


batch_size = 512
features = 256
width = 512
outputs = 256


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, width, outputs]
