import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def forward(self, x):
        sums, places = torch.empty(x.shape[0]), torch.empty(x.shape[0], dtype=torch.int64)
        ext.dict_in_another_order(x, sums, places, x.shape[0], x.shape[1])
        return {"sum": sums, "index": places}
