import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        rows, width = x.shape
        wide = self.up.weight.shape[0]
        hidden = torch.empty(rows, wide, device=x.device)
        total = torch.empty(rows, device=x.device)
        out = torch.empty_like(hidden)
        ext.linear_relu(x, self.up.weight, self.up.bias, hidden, rows, wide, width, workspace_bytes=width * wide * 4)
        ext.row_sum(hidden, total, rows, wide)
        ext.row_norm(hidden, self.norm.weight, self.norm.bias, out, rows, wide, 1e-5)
        return out, total
