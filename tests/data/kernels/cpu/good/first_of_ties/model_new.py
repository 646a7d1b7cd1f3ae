import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        first = torch.empty(rows, dtype=torch.int64)
        values, places = torch.empty(rows, 3), torch.empty(rows, 3, dtype=torch.int64)
        ext.first_of_ties(x, first, values, places, rows, cols)
        return first, (values, places)
