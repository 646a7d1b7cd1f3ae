#include "khost.h"

extern "C" int k(const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t in,
                 int64_t width) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t o = 0; o < width; o++) {
      float sum = bias[o];
      for (int64_t i = 0; i < in; i++) sum += x[r * in + i] * weight[o * in + i];
      out[r * width + o] = sum;
    }
  }
  return 0;
}
KHOST_EXPORT(k)
