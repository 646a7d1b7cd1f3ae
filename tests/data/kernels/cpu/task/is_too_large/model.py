import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, guess, side):
        return torch.mean(torch.clamp(1 - guess * side, min=0))


def get_inputs():
    return [torch.rand(32768, 8192), torch.randint(0, 2, (32768, 1)).float() * 2 - 1]


def get_init_inputs():
    return []
