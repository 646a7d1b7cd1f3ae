import torch
import torch.nn as nn


class Model(nn.Module):
    """Convolution, sigmoid, and normalisation to a spatial attention map."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        h = torch.sigmoid(self.conv(x))
        return h / h.sum(dim=(1, 2, 3), keepdim=True)


batch_size = 4
in_channels = 8
out_channels = 16
size = 64


def get_inputs():
    return [torch.randn(batch_size, in_channels, size, size)]


def get_init_inputs():
    return [in_channels, out_channels]
