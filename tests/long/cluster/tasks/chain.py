import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, scale, x):
        x = torch.diag(scale) @ x
        for _ in range(48):
            x = torch.abs(x * 1.0625 - 0.5)
        return x


def get_inputs():
    return [torch.randn(1280), torch.randn(1280, 1280)]


def get_init_inputs():
    return []
