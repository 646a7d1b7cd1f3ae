import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, guess, truth):
        return nn.functional.binary_cross_entropy(guess, truth, reduction="none")


def get_inputs():
    return [torch.rand(512, 1024) * 0.98 + 0.01, torch.rand(512, 1024)]


def get_init_inputs():
    return []
