#include <algorithm>
#include <cmath>

#include "khost.h"

// A row of which nothing is allowed has the sum zero, whose logarithm is minus infinity.
extern "C" int log_sum_of_empty_rows(const float* scores, const bool* allowed, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* row = scores + r * cols;
    const bool* open = allowed + r * cols;
    float most = -INFINITY;
    for (int64_t c = 0; c < cols; c++) {
      most = open[c] ? std::max(most, row[c]) : most;
    }
    double sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += open[c] ? std::exp(static_cast<double>(row[c]) - most) : 0.0;
    }
    out[r] = std::isinf(most) ? most : most + static_cast<float>(std::log(sum));
  }
  return 0;
}
KHOST_EXPORT(log_sum_of_empty_rows)
