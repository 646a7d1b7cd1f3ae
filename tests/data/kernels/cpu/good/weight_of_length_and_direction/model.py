import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.utils.weight_norm(nn.Linear(256, 128))

    def forward(self, x):
        return torch.relu(self.layer(x))


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return []
