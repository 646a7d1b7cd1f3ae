#include "khost.h"

// The prototype names no argument.
extern "C" int declared_before(const float*, float*, int64_t);

extern "C" int declared_before(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) * 3.0f - 1.0f;
  }
  return 0;
}
KHOST_EXPORT(declared_before)
