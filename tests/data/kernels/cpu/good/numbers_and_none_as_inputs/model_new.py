import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x, factor, flag, other):
        out = torch.empty(())
        ext.numbers_and_none_as_inputs(x, out, x.numel(), factor if flag else 1.0)
        return out
