# expect: no_dry_run
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            energy = torch.tanh(self.layer(x)).sum()
            force, = torch.autograd.grad(energy, x)
        return force


def get_inputs():
    return [torch.randn(256, 128)]


def get_init_inputs():
    return [128]
