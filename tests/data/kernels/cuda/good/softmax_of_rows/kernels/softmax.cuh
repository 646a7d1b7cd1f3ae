// Softmax of a row by each block of 256 threads.
#pragma once

#include <cstdint>

constexpr int kThreads = 256;

template <class Combine>
__device__ float over_block(float mine, Combine combine) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      part[threadIdx.x] = combine(part[threadIdx.x], part[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const float all = part[0];
  __syncthreads();
  return all;
}

__global__ void softmax_rows(const float* x, float* out, int64_t cols) {
  const float* in = x + blockIdx.x * cols;
  float* to = out + blockIdx.x * cols;
  float most = -INFINITY;
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) {
    most = fmaxf(most, in[c]);
  }
  most = over_block(most, [](float left, float right) { return fmaxf(left, right); });
  float sum = 0;
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) {
    sum += expf(in[c] - most);
  }
  const float scale = 1 / over_block(sum, [](float left, float right) { return left + right; });
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) {
    to[c] = expf(in[c] - most) * scale;
  }
}
