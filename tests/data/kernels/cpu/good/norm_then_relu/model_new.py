import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(2048)

    def forward(self, x):
        out = torch.empty_like(x)
        ext.norm_then_relu(x, self.norm.weight, self.norm.bias, out, x.shape[0], x.shape[1])
        return out
