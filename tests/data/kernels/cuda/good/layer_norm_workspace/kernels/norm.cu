#include "khost.h"

// Mean and reciprocal deviation of a row, into scratch memory.
__global__ void statistics_kernel(const float* x, float2* found, int cols, float eps) {
  const float* row = x + blockIdx.x * int64_t{cols};
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    sum += row[i];
  }
  __shared__ float part[32];
  __shared__ float mean;
  const auto reduce = [&](float value) {
    for (int step = 16; step > 0; step /= 2) {
      value += __shfl_down_sync(~0u, value, step);
    }
    if (threadIdx.x % 32 == 0) {
      part[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float total = 0;
    for (int i = 0; i < static_cast<int>(blockDim.x) / 32; i++) {
      total += part[i];
    }
    __syncthreads();
    return total;
  };
  const float total = reduce(sum);
  if (threadIdx.x == 0) {
    mean = total / cols;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    squares += (row[i] - mean) * (row[i] - mean);
  }
  const float variance = reduce(squares) / cols;
  if (threadIdx.x == 0) {
    found[blockIdx.x] = {mean, rsqrtf(variance + eps)};
  }
}

__global__ void normalise_kernel(const float* x, const float* weight, const float* bias, const float2* found, float* out,
                                 int64_t n, int cols) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) {
    const float2 s = found[i / cols];
    out[i] = (x[i] - s.x) * s.y * weight[i % cols] + bias[i % cols];
  }
}

extern "C" int row_statistics(const float* x, int64_t rows, int64_t cols, float eps, float* found,
                              khost::stream* stream) {
  statistics_kernel<<<static_cast<unsigned>(rows), 256, 0, khost::cuda(stream)>>>(x, reinterpret_cast<float2*>(found),
                                                                               static_cast<int>(cols), eps);
  return cudaGetLastError();
}
KHOST_EXPORT(row_statistics)

extern "C" int normalise(const float* x, const float* weight, const float* bias, const float* found, float* out,
                         int64_t rows, int64_t cols, khost::stream* stream) {
  const int64_t n = rows * cols;
  normalise_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, khost::cuda(stream)>>>(
      x, weight, bias, reinterpret_cast<const float2*>(found), out, n, static_cast<int>(cols));
  return cudaGetLastError();
}
KHOST_EXPORT(normalise)
