import torch
import torch.nn as nn
import torch.nn.functional as F
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        self.scale = nn.Parameter(torch.rand(filters, 1, 1))
        self.shift = nn.Parameter(torch.randn(filters, 1, 1))

    def forward(self, x):
        weight = torch.empty_like(self.conv.weight)
        ext.scale_weight(self.conv.weight, self.scale, weight, weight.shape[0], weight[0].numel())
        return F.conv2d(x, weight, self.shift.reshape(-1), padding=1).clamp_(0, 6)
