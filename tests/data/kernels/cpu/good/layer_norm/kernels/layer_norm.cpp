#include <cmath>

#include "khost.h"

extern "C" int layer_norm(const float* x, const float* norm_weight, const float* norm_bias, float* out, int64_t rows,
                          int64_t cols) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    double sum = 0, square = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += in[c];
      square += static_cast<double>(in[c]) * in[c];
    }
    const double mean = sum / cols;
    const float scale = static_cast<float>(1.0 / std::sqrt(square / cols - mean * mean + 1e-5));
    for (int64_t c = 0; c < cols; c++) {
      out[r * cols + c] = (in[c] - static_cast<float>(mean)) * scale * norm_weight[c] + norm_bias[c];
    }
  }
  return 0;
}
KHOST_EXPORT(layer_norm)
