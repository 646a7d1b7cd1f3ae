import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Convolution, group normalisation, SiLU and max pooling."""

    def __init__(self, in_channels, out_channels, groups):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)
        self.norm = nn.GroupNorm(groups, out_channels)

    def forward(self, x):
        h = F.silu(self.norm(self.conv(x)))
        return F.max_pool2d(h, kernel_size=2)


batch_size = 8
in_channels = 8
out_channels = 16
size = 64


def get_inputs():
    generator = torch.Generator().manual_seed(1234)
    return [torch.randn(batch_size, in_channels, size, size, generator=generator)]


def get_init_inputs():
    return [in_channels, out_channels, 4]
