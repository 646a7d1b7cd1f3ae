import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Linear, batch normalisation, maximum over groups, minus the mean, GELU."""

    def __init__(self, in_features, out_features, group):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features, bias=False)
        self.bn = nn.BatchNorm1d(out_features)
        self.group = group

    def forward(self, x):
        h = self.bn(self.fc(x))
        h = h.view(h.shape[0], -1, self.group).amax(dim=2)
        h = h - h.mean(dim=1, keepdim=True)
        return F.gelu(h)


batch_size = 512
in_features = 256
out_features = 1024


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, 4]
