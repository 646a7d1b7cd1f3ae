#include <vector>

#include "khost.h"

// Keeps the weights of the first call.
extern "C" int stale(const float* x, const float* bias, float* out, int64_t rows, int64_t cols) {
  static const std::vector<float> kept(bias, bias + cols);
  for (int64_t i = 0; i < rows * cols; i++) {
    const float y = x[i] + kept[i % cols];
    out[i] = y < 0 ? 0 : y;
  }
  return 0;
}
KHOST_EXPORT(stale)
