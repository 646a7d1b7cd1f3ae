#include "khost.h"
#include <algorithm>
#include <cmath>

extern "C" int k(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* row = x + r * cols;
    float sum = 0, squares = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += row[c];
      squares += row[c] * row[c];
    }
    const float count = static_cast<float>(cols), mean = sum / count;
    const float variance = std::max(0.0f, squares / count - mean * mean) * (count / (count - 1));
    const float scale = 1.0f / (std::sqrt(variance) + 1e-6f);
    for (int64_t c = 0; c < cols; c++)
      out[r * cols + c] = (row[c] - mean) * scale;
  }
  return 0;
}
KHOST_EXPORT(k)
