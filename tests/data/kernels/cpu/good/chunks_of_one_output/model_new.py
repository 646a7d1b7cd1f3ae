import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[1], 3 * x.shape[2])
        ext.k(x, self.qkv.weight, self.qkv.bias, out, x.shape[0] * x.shape[1], x.shape[2], out.shape[2])
        width = x.shape[2]
        return out[..., :width], out[..., width:2 * width], out[..., 2 * width:]
