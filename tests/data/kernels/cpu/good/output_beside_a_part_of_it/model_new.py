import torch
import torch.nn as nn
import cuda_extension as ext


class ModelNew(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, eps=eps)

    def forward(self, hidden_states):
        last_hidden_state = torch.empty_like(hidden_states)
        b, t, d = hidden_states.shape
        ext.layer_norm(hidden_states, self.norm.weight, self.norm.bias, last_hidden_state, b * t, d, self.norm.eps)
        pooled_output = last_hidden_state[:, 0]
        return last_hidden_state, pooled_output
