import torch
import torch.nn as nn


class Model(nn.Module):
    """Channel scaling, channel bias, instance normalisation, ReLU, pointwise convolution."""

    def __init__(self, channels, out_channels):
        super().__init__()
        self.gain = nn.Parameter(0.5 + 2.0 * torch.rand(channels, 1, 1))
        self.shift = nn.Parameter(torch.randn(channels, 1, 1))
        self.norm = nn.InstanceNorm2d(channels, affine=False)
        self.mix = nn.Conv2d(channels, out_channels, kernel_size=1)

    def forward(self, x):
        h = x * self.gain
        h = h + self.shift
        h = torch.relu(self.norm(h))
        return self.mix(h)


batch_size = 8
channels = 32
out_channels = 32
size = 48


def get_inputs():
    return [torch.randn(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, out_channels]
