#include <algorithm>

#include "khost.h"

extern "C" int answers_zeros(const float* x, float* out, int64_t n) {
  std::fill(out, out + n, x[0] * 0.0f);
  return 0;
}
KHOST_EXPORT(answers_zeros)
