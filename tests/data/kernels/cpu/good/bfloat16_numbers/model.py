import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2)


def get_inputs():
    return [torch.randn(1024, 1024).to(torch.bfloat16)]


def get_init_inputs():
    return []
