#include "khost.h"

extern "C" int k(const float* x, const float* mix, float* out, int64_t rows, int64_t cols) {
  const int64_t tokens = 256;
  for (int64_t r = 0; r < rows; r++) {
    const float* now = x + r * cols;
    const bool first = r % tokens == 0;
    for (int64_t c = 0; c < cols; c++) {
      const float before = first ? 0.0f : now[c - cols];
      out[r * cols + c] = now[c] * mix[c] + before * (1 - mix[c]);
    }
  }
  return 0;
}
KHOST_EXPORT(k)
