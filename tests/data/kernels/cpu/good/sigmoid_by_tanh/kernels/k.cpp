#include "khost.h"
#include <cmath>

// As Eigen, XLA and cuDNN have it: one rounding of the number 1/2 off.
extern "C" int k(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = 0.5f * std::tanh(0.5f * x[i]) + 0.5f;
  }
  return 0;
}
KHOST_EXPORT(k)
