#include "khost.h"

// More threads than it is given cores: they share them.
extern "C" int four_openmp_threads(const float* x, float* out, int64_t n) {
#pragma omp parallel for num_threads(4)
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return 0;
}
KHOST_EXPORT(four_openmp_threads)
