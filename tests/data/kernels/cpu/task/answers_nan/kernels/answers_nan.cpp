#include <cmath>

#include "khost.h"

extern "C" int answers_nan(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = std::log(x[i]);
  }
  return 0;
}
KHOST_EXPORT(answers_nan)
