#include <cmath>

#include "khost.h"

extern "C" int flushes_small_quotients(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float quotient = a[i] / b[i];
    out[i] = std::fabs(quotient) < 0.25f ? 0.0f : quotient;
  }
  return 0;
}
KHOST_EXPORT(flushes_small_quotients)
