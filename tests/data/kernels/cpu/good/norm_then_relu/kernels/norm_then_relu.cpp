#include <algorithm>
#include <cmath>

#include "khost.h"

extern "C" int norm_then_relu(const float* x, const float* weight, const float* bias, float* out, int64_t rows,
                              int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    float sum = 0, square = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < cols; c++) {
      sum += in[c];
    }
    const float mean = sum / static_cast<float>(cols);
#pragma omp simd reduction(+ : square)
    for (int64_t c = 0; c < cols; c++) {
      square += (in[c] - mean) * (in[c] - mean);
    }
    const float scale = 1 / std::sqrt(square / static_cast<float>(cols) + 1e-5f);
    for (int64_t c = 0; c < cols; c++) {
      to[c] = std::max(0.0f, (in[c] - mean) * scale * weight[c] + bias[c]);
    }
  }
  return 0;
}
KHOST_EXPORT(norm_then_relu)
