# expect: out_of_memory
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        kept = []
        while True:
            kept.append(bytearray(64 << 20))


def get_inputs():
    return [torch.randn(4)]


def get_init_inputs():
    return []
