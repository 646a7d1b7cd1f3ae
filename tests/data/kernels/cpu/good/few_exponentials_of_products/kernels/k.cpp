#include "khost.h"
#include <cmath>
#include <algorithm>
#include <vector>

extern "C" int k(const float* x, const float* w, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    double s = 0;
    for (int64_t c = 0; c < cols; c++) s += (double)x[r * cols + c] * w[c];
    out[r] = (float)std::exp(s);
  }
  return 0;
}
KHOST_EXPORT(k)
