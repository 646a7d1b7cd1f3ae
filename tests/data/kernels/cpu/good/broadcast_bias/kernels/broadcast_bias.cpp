#include "khost.h"

extern "C" int broadcast_bias(const float* x, const float* bias, float* out, int64_t rows, int64_t cols) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      const float y = x[r * cols + c] + bias[c];
      out[r * cols + c] = y < 0 ? 0 : y;
    }
  }
  return 0;
}
KHOST_EXPORT(broadcast_bias)
