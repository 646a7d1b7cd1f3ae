#include "khost.h"

extern "C" int variance_as_a_difference(const float* x, float* out, int64_t rows) {
  const int64_t cols = 4096;
  for (int64_t r = 0; r < rows; r++) {
    const float* row = x + r * cols;
    float sum = 0, square = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += row[c];
      square += row[c] * row[c];
    }
    out[r] = square / cols - sum / cols * (sum / cols);
  }
  return 0;
}
KHOST_EXPORT(variance_as_a_difference)
