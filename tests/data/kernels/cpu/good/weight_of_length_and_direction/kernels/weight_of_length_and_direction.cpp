#include <cmath>

#include "khost.h"

extern "C" int weight_of_length_and_direction(const float* x, const float* layer_bias, const float* layer_weight_g, const float* layer_weight_v,
                    float* out) {
  const int64_t rows = 256, cols = 128, width = 256;
  for (int64_t c = 0; c < cols; c++) {
    const float* v = layer_weight_v + c * width;
    float length = 0;
    for (int64_t k = 0; k < width; k++) length += v[k] * v[k];
    const float scale = layer_weight_g[c] / std::sqrt(length);
    for (int64_t r = 0; r < rows; r++) {
      float sum = 0;
      for (int64_t k = 0; k < width; k++) sum += x[r * width + k] * v[k];
      const float y = sum * scale + layer_bias[c];
      out[r * cols + c] = y > 0 ? y : 0;
    }
  }
  return 0;
}
KHOST_EXPORT(weight_of_length_and_direction)
