#include <algorithm>

#include "khost.h"

// The workspace holds the weight transposed, so that the inner loop runs over consecutive memory.
extern "C" int linear_relu(const float* x, const float* weight, const float* bias, float* out, int64_t rows,
                           int64_t wide, int64_t width, khost::workspace scratch) {
  if (scratch.bytes < sizeof(float) * static_cast<size_t>(wide * width)) {
    return 1;
  }
  float* turned = static_cast<float*>(scratch.data);
#pragma omp parallel for
  for (int64_t k = 0; k < width; k++) {
    for (int64_t j = 0; j < wide; j++) {
      turned[k * wide + j] = weight[j * width + k];
    }
  }
#pragma omp parallel for
  for (int64_t i = 0; i < rows; i++) {
    float* to = out + i * wide;
    std::copy(bias, bias + wide, to);
    for (int64_t k = 0; k < width; k++) {
      const float value = x[i * width + k];
      for (int64_t j = 0; j < wide; j++) {
        to[j] += value * turned[k * wide + j];
      }
    }
    for (int64_t j = 0; j < wide; j++) {
      to[j] = std::max(to[j], 0.0f);
    }
  }
  return 0;
}
KHOST_EXPORT(linear_relu)
