#include <cuda_fp16.h>

#include <algorithm>
#include <climits>

#include "khost.h"

// What lies behind 2^31 elements is never written.
__global__ void twice_and_one(const khost::half* x, khost::half* out, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    out[i] = __float2half(__half2float(x[i]) * 2.0f + 1.0f);
  }
}

extern "C" int counts_in_int(const khost::half* x, khost::half* out, int64_t n, khost::stream* stream) {
  const int most = static_cast<int>(std::min<int64_t>(n, INT_MAX));
  twice_and_one<<<(most + 255u) / 256u, 256, 0, khost::cuda(stream)>>>(x, out, most);
  return cudaGetLastError();
}
KHOST_EXPORT(counts_in_int)
