#include "khost.h"

__global__ void scaled_relu(const float* x, float* out, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += int64_t{gridDim.x} * blockDim.x) {
    out[i] = x[i] > 0 ? x[i] * 2 : 0;
  }
}

extern "C" int relu_twice_as_large(const float* x, float* out, int64_t n, khost::stream* stream) {
  scaled_relu<<<132 * 16, 256, 0, khost::cuda(stream)>>>(x, out, n);
  return cudaGetLastError();
}
KHOST_EXPORT(relu_twice_as_large)
