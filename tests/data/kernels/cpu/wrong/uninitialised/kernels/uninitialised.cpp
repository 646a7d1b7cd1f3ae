#include "khost.h"

// Adds up what the output held before.
extern "C" int uninitialised(const float* x, const float* bias, float* out, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows * cols; i++) {
    out[i] += x[i] + bias[i % cols];
    out[i] = out[i] < 0 ? 0 : out[i];
  }
  return 0;
}
KHOST_EXPORT(uninitialised)
