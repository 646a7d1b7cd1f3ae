#include <cmath>

#include "khost.h"

extern "C" int leaves_out_epsilon(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* row = x + r * cols;
    double sum = 0, square = 0;
    for (int64_t c = 0; c < cols; c++) sum += row[c];
    const double mean = sum / static_cast<double>(cols);
    for (int64_t c = 0; c < cols; c++) square += (row[c] - mean) * (row[c] - mean);
    const double scale = 1 / std::sqrt(square / static_cast<double>(cols));
    for (int64_t c = 0; c < cols; c++) out[r * cols + c] = static_cast<float>((row[c] - mean) * scale);
  }
  return 0;
}
KHOST_EXPORT(leaves_out_epsilon)
