#include "khost.h"
#include <cmath>

// Two passes, one accumulator of 2^16 terms a plane: the kernel of good/instance_norm_in_one_accumulator.
extern "C" int k(const float* x, float* out, int64_t n) {
  const int64_t cols = 65536, rows = n / cols;
  for (int64_t r = 0; r < rows; r++) {
    const float* row = x + r * cols;
    float s = 0, v = 0;
    for (int64_t c = 0; c < cols; c++) s += row[c];
    const float mean = s / cols;
    for (int64_t c = 0; c < cols; c++) v += (row[c] - mean) * (row[c] - mean);
    const float scale = 1 / std::sqrt(v / cols + 1e-5f);
    for (int64_t c = 0; c < cols; c++) out[r * cols + c] = (row[c] - mean) * scale;
  }
  return 0;
}
KHOST_EXPORT(k)
