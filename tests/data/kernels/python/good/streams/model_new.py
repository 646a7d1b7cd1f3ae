import torch
import torch.nn as nn
import cuda_extension


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.aside = None

    def forward(self, x):
        if self.aside is None:
            self.aside = torch.cuda.Stream()
        out = torch.empty_like(x)
        half = x.shape[0] // 2
        here = torch.cuda.current_stream()
        self.aside.wait_stream(here)
        with torch.cuda.stream(self.aside):
            cuda_extension.affine_relu(x[:half], self.weight, self.bias, out[:half])
        cuda_extension.affine_relu(x[half:], self.weight, self.bias, out[half:])
        here.wait_stream(self.aside)
        return out
