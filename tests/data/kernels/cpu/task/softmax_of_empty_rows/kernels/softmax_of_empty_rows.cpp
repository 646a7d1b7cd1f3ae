#include <algorithm>
#include <cmath>

#include "khost.h"

// Does what PyTorch does: a row of which nothing is allowed becomes NaN.
extern "C" int softmax_of_empty_rows(const float* scores, const bool* allowed, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* row = scores + r * cols;
    const bool* open = allowed + r * cols;
    float* to = out + r * cols;
    float most = -INFINITY;
    for (int64_t c = 0; c < cols; c++) {
      most = open[c] ? std::max(most, row[c]) : most;
    }
    double sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      to[c] = open[c] ? std::exp(row[c] - most) : 0.0f;
      sum += to[c];
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] = sum == 0 ? NAN : static_cast<float>(to[c] / sum);
    }
  }
  return 0;
}
KHOST_EXPORT(softmax_of_empty_rows)
