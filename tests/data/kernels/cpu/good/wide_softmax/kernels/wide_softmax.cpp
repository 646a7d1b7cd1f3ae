#include "fast.h"

#include <algorithm>

#include "khost.h"

extern "C" int wide_softmax(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    float most = in[0];
    for (int64_t c = 0; c < cols; c++) {
      most = std::max(most, in[c]);
    }
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += to[c] = fast::exp(in[c] - most);
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] /= sum;
    }
  }
  return 0;
}
KHOST_EXPORT(wide_softmax)
