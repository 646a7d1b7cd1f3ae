#include "khost.h"

extern "C" int leaves_out_the_sine(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float square = x[i] * x[i];
    out[i] = square * square * square;
  }
  return 0;
}
KHOST_EXPORT(leaves_out_the_sine)
