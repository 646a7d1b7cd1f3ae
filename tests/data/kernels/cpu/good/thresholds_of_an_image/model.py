import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return (x >= 128 / 255).float()


def get_inputs():
    return [torch.randint(0, 256, (16, 3, 64, 64)) / 255.0]


def get_init_inputs():
    return []
