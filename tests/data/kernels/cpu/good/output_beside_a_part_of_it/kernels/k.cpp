#include <cmath>
#include <cstdint>
#include <vector>

#include "khost.h"

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t cols,
                          float eps) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float mean = 0, var = 0;
    for (int64_t c = 0; c < cols; c++) mean += in[c];
    mean /= static_cast<float>(cols);
    for (int64_t c = 0; c < cols; c++) var += (in[c] - mean) * (in[c] - mean);
    const float scale = 1.0f / std::sqrt(var / static_cast<float>(cols) + eps);
    for (int64_t c = 0; c < cols; c++) out[r * cols + c] = (in[c] - mean) * scale * weight[c] + bias[c];
  }
  return 0;
}
KHOST_EXPORT(layer_norm)
