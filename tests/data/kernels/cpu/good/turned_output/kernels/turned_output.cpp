#include "khost.h"

extern "C" int turned_output(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = x[i] * 2;
  }
  return 0;
}
KHOST_EXPORT(turned_output)
