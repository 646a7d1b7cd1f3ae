#include "khost.h"

// How many knots are smaller: all are looked at, without a branch.
extern "C" int k(const float* x, const float* knots, int64_t* out, int64_t rows, int64_t cols) {
  const int64_t count = 128;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      int32_t below = 0;
      for (int64_t i = 0; i < count; i++)
        below += knots[r * count + i] < x[r * cols + c];
      out[r * cols + c] = below;
    }
  }
  return 0;
}
KHOST_EXPORT(k)
