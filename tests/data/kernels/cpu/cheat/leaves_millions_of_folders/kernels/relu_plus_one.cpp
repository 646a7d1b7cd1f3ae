#include "khost.h"

extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return 0;
}
KHOST_EXPORT(relu_plus_one)
