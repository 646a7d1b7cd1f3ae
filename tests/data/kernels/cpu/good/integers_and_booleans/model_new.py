import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x, allowed):
        large, odd = torch.empty_like(allowed), torch.empty_like(x)
        ext.integers_and_booleans(x, allowed, large, odd, x.numel())
        return large, odd
