import torch
import torch.nn as nn

import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        scaled = torch.empty_like(x)
        means = torch.empty(rows, device=x.device, dtype=torch.float32)
        ext.half_pair(x, scaled, means, rows, cols)
        return {"scaled": scaled, "rows": means}
