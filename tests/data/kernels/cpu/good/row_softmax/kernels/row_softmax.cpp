#include <algorithm>
#include <cmath>

#include "khost.h"

extern "C" int row_softmax(const float* x, float* out, int64_t rows, int64_t cols) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    float most = in[0];
    for (int64_t c = 1; c < cols; c++) {
      most = std::max(most, in[c]);
    }
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      to[c] = std::exp(in[c] - most);
      sum += to[c];
    }
    const float scale = 1.0f / sum;
    for (int64_t c = 0; c < cols; c++) {
      to[c] *= scale;
    }
  }
  return 0;
}
KHOST_EXPORT(row_softmax)
