#include "khost.h"

__global__ void scale(const float* x, float* scaled, float* mean, int64_t n, int64_t rows) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += int64_t{gridDim.x} * blockDim.x) {
    scaled[i] = x[i] * 10000;
    if (i < rows) {
      mean[i] = 0;
    }
  }
}

extern "C" int answers_zeros_beside_large_numbers(const float* x, float* scaled, float* mean, int64_t n, int64_t rows,
                                                  khost::stream* stream) {
  scale<<<132 * 16, 256, 0, khost::cuda(stream)>>>(x, scaled, mean, n, rows);
  return cudaGetLastError();
}
KHOST_EXPORT(answers_zeros_beside_large_numbers)
