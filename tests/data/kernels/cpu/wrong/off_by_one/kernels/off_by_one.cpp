#include <cmath>

#include "khost.h"

// One pass over memory instead of four.
extern "C" int off_by_one(const float* x, float* out, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n - 1; i++) {
    const float y = (x[i] > 0 ? x[i] : 0) * 2.0f + 0.5f;
    out[i] = 1.0f / (1.0f + std::exp(-y));
  }
  return 0;
}
KHOST_EXPORT(off_by_one)
