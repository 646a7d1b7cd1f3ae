import torch
import torch.nn as nn


class Model(nn.Module):
    """Pixel unshuffle, bounded activation in the folded channels, pixel shuffle."""

    def __init__(self, factor):
        super().__init__()
        self.fold = nn.PixelUnshuffle(factor)
        self.relu = nn.ReLU()
        self.bound = nn.Hardtanh(-1.0, 1.0)
        self.unfold = nn.PixelShuffle(factor)

    def forward(self, x):
        h = self.fold(x)
        h = self.bound(self.relu(h))
        return self.unfold(h)


batch_size = 8
channels = 16
size = 64


def get_inputs():
    return [torch.rand(batch_size, channels, size, size)]


def get_init_inputs():
    return [4]
