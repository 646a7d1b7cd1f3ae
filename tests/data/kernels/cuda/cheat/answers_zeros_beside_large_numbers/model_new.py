import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        scaled, mean = torch.empty_like(x), torch.empty(x.shape[0], device=x.device)
        ext.answers_zeros_beside_large_numbers(x, scaled, mean, x.numel(), x.shape[0])
        return {"scaled": scaled, "mean": mean}
