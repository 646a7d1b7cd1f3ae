import torch
import torch.nn as nn
import cuda_extension as ext


class Block(nn.Module):
    def __init__(self, width, rate):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.rate = rate


class ModelNew(nn.Module):
    def __init__(self, width, depth, drop_path_rate):
        super().__init__()
        rates = [x.item() for x in torch.linspace(0, drop_path_rate, depth)]
        self.blocks = nn.ModuleList([Block(width, rate) for rate in rates])

    def forward(self, x):
        for block in self.blocks:
            out = torch.empty_like(x)
            ext.k(x, block.linear.weight, block.linear.bias, out, x.shape[0], x.shape[1])
            x = out
        return x
