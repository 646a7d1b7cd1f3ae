#include <algorithm>

#include "khost.h"

extern "C" int k(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t o = 0; o < cols; o++) {
      float sum = bias[o];
      for (int64_t i = 0; i < cols; i++) sum += x[r * cols + i] * weight[o * cols + i];
      out[r * cols + o] = x[r * cols + o] + std::max(0.0f, sum);
    }
  }
  return 0;
}
KHOST_EXPORT(k)
