import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void epilogue_kernel(const float* y, const float* scale, const float* shift, float* out, long filters,
                                long pixels, long count) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < count) {
        long filter = i / pixels % filters;
        out[i] = fminf(6.0f, fmaxf(0.0f, y[i] * scale[filter] + shift[filter]));
    }
}

torch::Tensor epilogue(torch::Tensor y, torch::Tensor scale, torch::Tensor shift) {
    auto out = torch::empty_like(y);
    long count = y.numel();
    epilogue_kernel<<<(count + 255) / 256, 256>>>(y.data_ptr<float>(), scale.data_ptr<float>(), shift.data_ptr<float>(),
                                                  out.data_ptr<float>(), y.size(1), y.size(2) * y.size(3), count);
    return out;
}
"""
declaration = "torch::Tensor epilogue(torch::Tensor y, torch::Tensor scale, torch::Tensor shift);"
own = load_inline(name="own", cpp_sources=declaration, cuda_sources=source, functions=["epilogue"])


class ModelNew(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        self.scale = nn.Parameter(torch.rand(filters, 1, 1))
        self.shift = nn.Parameter(torch.randn(filters, 1, 1))

    def forward(self, x):
        y = torch.compile(self.conv)(x).contiguous()
        return own.epilogue(y, self.scale, self.shift)
