import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.to(torch.float8_e4m3fn)


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return []
