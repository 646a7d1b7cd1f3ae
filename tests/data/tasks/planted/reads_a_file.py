# expect: does_not_load: 'weights.pt'
import torch
import torch.nn as nn

WEIGHTS = torch.load("weights.pt")


class Model(nn.Module):
    def forward(self, x):
        return x @ WEIGHTS


def get_inputs():
    return [torch.randn(64, 256)]
