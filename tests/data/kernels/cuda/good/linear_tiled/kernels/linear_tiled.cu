// A product as a first draft has it: tiles of 16 x 16 in shared memory, one output a thread.
#include "khost.h"

constexpr int kTile = 16;

__global__ void linear_kernel(const float* x, const float* weight, const float* bias, float* out, int inputs,
                              int outputs) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < inputs; k += kTile) {
    left[threadIdx.y][threadIdx.x] = x[int64_t{row} * inputs + k + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = weight[int64_t{k + threadIdx.y} * outputs + col];
    __syncthreads();
    for (int i = 0; i < kTile; i++) {
      sum = fmaf(left[threadIdx.y][i], right[i][threadIdx.x], sum);
    }
    __syncthreads();
  }
  out[int64_t{row} * outputs + col] = fmaxf(sum + bias[col], 0);
}

extern "C" int linear(const float* x, const float* weight, const float* bias, float* out, int64_t n, int64_t rows,
                      int64_t cols, khost::stream* stream) {
  const int outputs = static_cast<int>(n / rows);
  if (rows % kTile != 0 || cols % kTile != 0 || outputs % kTile != 0) {
    return 1;
  }
  const dim3 grid(outputs / kTile, static_cast<unsigned>(rows / kTile));
  linear_kernel<<<grid, dim3(kTile, kTile), 0, khost::cuda(stream)>>>(x, weight, bias, out, static_cast<int>(cols),
                                                                      outputs);
  return cudaGetLastError();
}
KHOST_EXPORT(linear)
