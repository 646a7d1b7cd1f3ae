# expect: sound
import torch
import torch.nn as nn

torch.set_num_threads(2)


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.utils.weight_norm(nn.Linear(width, width))

    def forward(self, x):
        return torch.relu(self.layer(x))


def get_inputs():
    return [torch.randn(256, 128)]


def get_init_inputs():
    return [128]
