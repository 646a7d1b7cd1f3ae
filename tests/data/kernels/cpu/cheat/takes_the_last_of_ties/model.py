import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return x.argmax(1)


def get_inputs():
    return [torch.randn(512, 4096).bfloat16()]


def get_init_inputs():
    return []
