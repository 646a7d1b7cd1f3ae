#include "khost.h"

extern "C" int bakes_values(const float* x, float* out, int64_t n, float sum) {
  out[0] = sum + 0 * x[n - 1];
  return 0;
}
KHOST_EXPORT(bakes_values)
