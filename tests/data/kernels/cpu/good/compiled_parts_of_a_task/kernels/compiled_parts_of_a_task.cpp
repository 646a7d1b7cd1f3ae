#include "khost.h"
#include <cmath>

extern "C" int product(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t o = 0; o < cols; o++) {
      float sum = b[o];
      for (int64_t c = 0; c < cols; c++)
        sum += x[r * cols + c] * w[o * cols + c];
      out[r * cols + o] = sum;
    }
  }
  return 0;
}
KHOST_EXPORT(product)

extern "C" int gate(const float* x, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    out[i] = y[i] / (1 + std::exp(-x[i]));
  return 0;
}
KHOST_EXPORT(gate)
