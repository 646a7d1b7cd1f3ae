import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(384, width) / width ** 0.5).to(torch.bfloat16))

    def forward(self, x):
        return nn.functional.linear(x.to(torch.bfloat16), self.weight)


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return [512]
