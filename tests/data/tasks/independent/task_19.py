import torch
import torch.nn as nn


class Model(nn.Module):
    """Attentive pooling over sequences of different lengths."""

    def __init__(self, features, outputs):
        super().__init__()
        self.score = nn.Linear(features, 1, bias=False)
        self.proj = nn.Linear(features, outputs)

    def forward(self, x, lengths):
        scores = 3.0 * self.score(x).squeeze(-1)
        valid = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)
        weights = torch.softmax(scores.masked_fill(~valid, float("-inf")), dim=1)
        pooled = torch.bmm(weights.unsqueeze(1), x).squeeze(1)
        return self.proj(pooled)


batch_size = 64
steps = 48
features = 256
outputs = 256


def get_inputs():
    return [
        torch.randn(batch_size, steps, features),
        torch.randint(steps // 3, steps + 1, (batch_size,)),
    ]


def get_init_inputs():
    return [features, outputs]
