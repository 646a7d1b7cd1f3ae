#include "khost.h"
#include <cmath>

// Sixteen at a time, rounded up: seven floats behind the end of x are read and seven behind the end of out are written.
extern "C" int k(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    for (int64_t j = i; j < i + 16; j++) {
      out[j] = x[j] / (1.0f + std::exp(-x[j]));
    }
  }
  return 0;
}
KHOST_EXPORT(k)
