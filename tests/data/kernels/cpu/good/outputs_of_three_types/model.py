import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return x.double() / 3, y.int() + 7, (y % 5).to(torch.uint8)


def get_inputs():
    return [torch.randn(512, 512), torch.randint(0, 100, (512, 512))]


def get_init_inputs():
    return []
