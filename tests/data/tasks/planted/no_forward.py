# expect: does_not_load
import torch


class Model(torch.nn.Module):
    pass


def get_inputs():
    return [torch.randn(4)]
