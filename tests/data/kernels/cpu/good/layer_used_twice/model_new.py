import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(256, 256)
        self.second = self.first

    def forward(self, x):
        hidden, out = torch.empty_like(x), torch.empty_like(x)
        ext.layer_used_twice(x, self.first.weight, self.first.bias, hidden, out, x.shape[0], 256)
        return out
