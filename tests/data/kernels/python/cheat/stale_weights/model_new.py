import torch
import torch.nn as nn
import cuda_extension


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.weight.clone(), self.bias.clone()
        return cuda_extension.affine_relu(x, *self.packed)
