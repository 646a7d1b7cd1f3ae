import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, a, b):
        return F.cosine_similarity(a, b, dim=-1)


def get_inputs():
    return [torch.randn(4, 1024, 128), torch.randn(4, 1024, 128)]


def get_init_inputs():
    return []
