# expect: missing_module: no_such_package
import torch
import torch.nn as nn
import torch.nn.functional as F
import no_such_package


class Model(nn.Module):
    def forward(self, x):
        return x * x


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
