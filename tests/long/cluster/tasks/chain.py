import torch.nn as nn
import torch


class Model(nn.Module):
    def forward(self, x):
        for _ in range(12):
            x = torch.relu(x) * 1.25 - 0.5
        return x


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return []
