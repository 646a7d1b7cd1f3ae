import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Weight-normalised linear layer, Mish and layer normalisation."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)
        self.norm = nn.LayerNorm(out_features)

    def forward(self, x):
        layer = nn.utils.weight_norm(self.fc, name="weight", dim=0)
        return self.norm(F.mish(layer(x)))


batch_size = 512
in_features = 256
out_features = 512


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
