import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        room = torch.empty(2**30)
        out = room[:x.numel()].view(x.shape)
        ext.relu_plus_one(x, out, x.numel())
        return out
