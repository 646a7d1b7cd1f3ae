#include "khost.h"

extern "C" int does_not_compile(const float* x, float* out, int64_t n) {
  out[0] = y[0] + n;
  return 0;
}
KHOST_EXPORT(does_not_compile)
