import torch
import torch.nn as nn

import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        rows, cols = x.shape
        found = torch.empty(rows, 2, device=x.device)
        out = torch.empty_like(x)
        ext.row_statistics(x, rows, cols, self.norm.eps, found)
        ext.normalise(x, self.norm.weight, self.norm.bias, found, out, rows, cols)
        return out
