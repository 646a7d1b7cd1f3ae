#include <cmath>

#include "khost.h"

extern "C" int scripted_function(const float* x, const float* gain, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      const float value = x[r * cols + c];
      out[r * cols + c] = value / (1.0f + std::exp(-gain[c] * value));
    }
  }
  return 0;
}
KHOST_EXPORT(scripted_function)
