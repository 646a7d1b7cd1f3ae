#include "khost.h"

__global__ void half_relu(const float* x, float* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) {
    out[i + (i == n - 1 ? int64_t{1} << 44 : 0)] = x[i] > 0 ? x[i] * 0.5f : 0.0f;
  }
}

// The fault comes late, and breaks whatever shares its context.
extern "C" int faults_and_says_nothing(const float* x, float* out, int64_t n, khost::stream* stream) {
  half_relu<<<(n + 255) / 256, 256, 0, khost::cuda(stream)>>>(x, out, n);
  return 0;  // as if all went well
}
KHOST_EXPORT(faults_and_says_nothing)
