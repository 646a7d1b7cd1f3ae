#include "khost.h"
#include "softmax.cuh"

extern "C" int softmax_of_rows(const float* x, float* out, int64_t rows, int64_t cols, khost::stream* stream) {
  softmax_rows<<<rows, kThreads, 0, khost::cuda(stream)>>>(x, out, cols);
  return cudaGetLastError();
}
KHOST_EXPORT(softmax_of_rows)
