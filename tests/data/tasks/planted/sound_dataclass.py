# expect: sound
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Shape:
    rows: int = 64
    columns: int = 256
    slope: float = 0.2


SHAPE = Shape()


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * SHAPE.slope + torch.sigmoid(x)


def get_inputs():
    return [torch.randn(SHAPE.rows, SHAPE.columns)]
