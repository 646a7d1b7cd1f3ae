import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x, y):
        twice, more = torch.empty_like(x), torch.empty_like(y)
        ext.empty_tensor_beside(x, y, twice, more, x.numel(), y.numel())
        return twice, more
