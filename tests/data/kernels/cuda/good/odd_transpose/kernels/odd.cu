#include "khost.h"

constexpr int kTile = 32;

__global__ void transpose_kernel(const float* x, const float* y, float* turned, bool* larger, int rows, int cols) {
  __shared__ float tile[kTile][kTile + 1];
  const int c = blockIdx.x * kTile + threadIdx.x;
  for (int r = threadIdx.y; r < kTile; r += blockDim.y) {
    const int row = blockIdx.y * kTile + r;
    if (row < rows && c < cols) {
      const int64_t i = int64_t{row} * cols + c;
      tile[r][threadIdx.x] = x[i];
      larger[i] = fmaxf(x[i], y[i]) > 0;
    }
  }
  __syncthreads();
  const int out_c = blockIdx.y * kTile + threadIdx.x;
  for (int r = threadIdx.y; r < kTile; r += blockDim.y) {
    const int out_r = blockIdx.x * kTile + r;
    if (out_r < cols && out_c < rows) {
      turned[int64_t{out_r} * rows + out_c] = tile[threadIdx.x][r];
    }
  }
}

extern "C" int odd(const float* x, const float* y, float* turned, bool* larger, int64_t rows, int64_t cols,
                   khost::stream* stream) {
  const dim3 grid(static_cast<unsigned>((cols + kTile - 1) / kTile), static_cast<unsigned>((rows + kTile - 1) / kTile));
  transpose_kernel<<<grid, dim3(kTile, 8), 0, khost::cuda(stream)>>>(x, y, turned, larger, static_cast<int>(rows),
                                                                     static_cast<int>(cols));
  return cudaGetLastError();
}
KHOST_EXPORT(odd)
