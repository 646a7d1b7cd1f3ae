#include "khost.h"

extern "C" int threads_argument(const float* x, float* out, int64_t n, khost::threads threads) {
  if (threads.count < 1) {
    return 9;
  }
#pragma omp parallel for num_threads(threads.count)
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return 0;
}
KHOST_EXPORT(threads_argument)
