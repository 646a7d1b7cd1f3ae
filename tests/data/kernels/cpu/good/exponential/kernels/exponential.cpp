#include "fast.h"

#include "khost.h"

extern "C" int exponential(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = fast::exp(x[i]);
  }
  return 0;
}
KHOST_EXPORT(exponential)
