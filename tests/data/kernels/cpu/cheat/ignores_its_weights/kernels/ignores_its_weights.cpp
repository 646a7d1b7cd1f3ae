#include <cmath>

#include "khost.h"

// The weight of a fresh normalisation is one and its bias zero.
extern "C" int ignores_its_weights(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0, square = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += x[r * cols + c];
      square += static_cast<double>(x[r * cols + c]) * x[r * cols + c];
    }
    const double mean = sum / static_cast<double>(cols);
    const double scale = 1 / std::sqrt(square / static_cast<double>(cols) - mean * mean + 1e-5);
    for (int64_t c = 0; c < cols; c++) {
      out[r * cols + c] = static_cast<float>((x[r * cols + c] - mean) * scale);
    }
  }
  return 0;
}
KHOST_EXPORT(ignores_its_weights)
