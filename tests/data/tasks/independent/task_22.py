import torch
import torch.nn as nn


class Model(nn.Module):
    """A short stack of named linear stages with SiLU between them."""

    def __init__(self, features, names):
        super().__init__()
        self.names = frozenset(names)
        self.stages = nn.ModuleDict({name: nn.Linear(features, features) for name in names})
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        h = x
        for name in self.names:
            h = nn.functional.silu(self.stages[name](h)) + h
        return self.norm(h)


batch_size = 256
features = 256


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, ["embed", "mix", "refine", "expand", "settle"]]
