import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """The loss of a language model: logits without the last token, labels without the first."""

    def forward(self, logits, labels):
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def get_inputs():
    logits, tokens = torch.randn(4, 129, 2048), torch.randint(0, 2048, (4, 129))
    return [logits[:, :-1], tokens[:, 1:]]


def get_init_inputs():
    return []
