import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

constexpr int kBlocks = 264, kThreads = 256;

__global__ void twice(const float* x, float* out, double* sums, long n) {
    __shared__ double part[kThreads];
    double sum = 0;
    for (long i = blockIdx.x * long{kThreads} + threadIdx.x; i < n; i += gridDim.x * long{kThreads}) {
        out[i] = x[i] * 2;
        sum += x[i];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = part[0];
    }
}

__global__ void add(const double* sums, float* total) {
    double all = 0;
    for (int block = 0; block < kBlocks; block++) {
        all += sums[block];
    }
    *total = all;
}

void twice_and_total(torch::Tensor x, torch::Tensor out, torch::Tensor sums, torch::Tensor total) {
    auto stream = at::cuda::getCurrentCUDAStream();
    twice<<<kBlocks, kThreads, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), sums.data_ptr<double>(),
                                            x.numel());
    add<<<1, 1, 0, stream>>>(sums.data_ptr<double>(), total.data_ptr<float>());
}
"""
CPP = "void twice_and_total(torch::Tensor x, torch::Tensor out, torch::Tensor sums, torch::Tensor total);"
extension = load_inline(name="turned_tuple", cpp_sources=CPP, cuda_sources=CUDA, functions=["twice_and_total"])


class ModelNew(nn.Module):
    def forward(self, x):
        out, total = torch.empty_like(x), torch.empty((), device=x.device)
        sums = torch.empty(264, dtype=torch.float64, device=x.device)
        extension.twice_and_total(x, out, sums, total)
        return out.t(), total, None
