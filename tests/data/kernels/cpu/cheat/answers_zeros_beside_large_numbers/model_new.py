import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        scaled, mean = torch.empty_like(x), torch.empty(x.shape[0])
        ext.answers_zeros_beside_large_numbers(x, scaled, mean, x.shape[0], x.shape[1])
        return {"scaled": scaled, "mean": mean}
