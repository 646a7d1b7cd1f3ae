#include <cmath>

#include "khost.h"

extern "C" int row_sum(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += x[r * cols + c];
    }
    out[r] = static_cast<float>(sum);
  }
  return 0;
}
KHOST_EXPORT(row_sum)

extern "C" int row_norm(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t cols,
                        float epsilon) {
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0, square = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += x[r * cols + c];
    }
    const double mean = sum / cols;
    for (int64_t c = 0; c < cols; c++) {
      const double d = x[r * cols + c] - mean;
      square += d * d;
    }
    const double scale = 1.0 / std::sqrt(square / cols + epsilon);
    for (int64_t c = 0; c < cols; c++) {
      out[r * cols + c] = static_cast<float>((x[r * cols + c] - mean) * scale) * weight[c] + bias[c];
    }
  }
  return 0;
}
KHOST_EXPORT(row_norm)
