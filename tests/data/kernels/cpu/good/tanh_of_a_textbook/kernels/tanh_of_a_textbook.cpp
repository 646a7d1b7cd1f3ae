#include <cmath>

#include "khost.h"

extern "C" int tanh_of_a_textbook(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = 2.0f / (1.0f + std::exp(-2.0f * x[i])) - 1.0f;
  return 0;
}
KHOST_EXPORT(tanh_of_a_textbook)
