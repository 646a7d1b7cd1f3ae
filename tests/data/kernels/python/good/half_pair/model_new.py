import torch.nn as nn
import cuda_extension


class ModelNew(nn.Module):
    def forward(self, x):
        scaled, rows = cuda_extension.half_pair(x)
        return {"scaled": scaled, "rows": rows}
