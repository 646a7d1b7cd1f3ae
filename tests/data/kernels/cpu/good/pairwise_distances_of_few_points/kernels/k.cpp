#include "khost.h"
#include <cmath>
#include <algorithm>
#include <vector>

// The same formula, one accumulator after the other.
extern "C" int k(const float* x, float* out, int64_t rows, int64_t cols) {
  std::vector<float> s(rows);
  for (int64_t r = 0; r < rows; r++) for (int64_t c = 0; c < cols; c++) s[r] += x[r * cols + c] * x[r * cols + c];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t q = 0; q < rows; q++) {
      float p = 0;
      for (int64_t c = 0; c < cols; c++) p += x[r * cols + c] * x[q * cols + c];
      out[r * rows + q] = std::sqrt(std::max(s[r] + s[q] - 2 * p, 0.0f));
    }
  return 0;
}
KHOST_EXPORT(k)
