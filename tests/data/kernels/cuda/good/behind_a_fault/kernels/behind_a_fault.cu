#include "khost.h"

__global__ void half_relu(const float* x, float* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) {
    out[i] = x[i] > 0 ? x[i] * 0.5f : 0.0f;
  }
}

extern "C" int behind_a_fault(const float* x, float* out, int64_t n, khost::stream* stream) {
  half_relu<<<(n + 255) / 256, 256, 0, khost::cuda(stream)>>>(x, out, n);
  return 0;
}
KHOST_EXPORT(behind_a_fault)
