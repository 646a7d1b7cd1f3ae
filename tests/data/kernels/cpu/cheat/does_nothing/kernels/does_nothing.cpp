#include "khost.h"

// Hopes that the output still holds what somebody computed before.
extern "C" int does_nothing(const float* x, float* out, int64_t rows, int64_t cols) {
  out[0] = out[0];
  return 0;
}
KHOST_EXPORT(does_nothing)
