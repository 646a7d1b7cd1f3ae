# expect: unused_parameters
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 8)

    def forward(self, x):
        y = self.fc(x)
        return torch.tanh(x) * x


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
