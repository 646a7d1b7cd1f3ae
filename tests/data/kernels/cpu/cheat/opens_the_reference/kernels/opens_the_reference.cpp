#include <algorithm>
#include <cmath>

#include "khost.h"

namespace {

void softmax(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    const float most = *std::max_element(in, in + cols);
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += to[c] = std::exp(in[c] - most);
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] /= sum;
    }
  }
}

}  // namespace

// An honest kernel; the attack is in model_new.py.
extern "C" int opens_the_reference(const float* x, float* out, int64_t rows, int64_t cols) {
  softmax(x, out, rows, cols);
  return 0;
}
KHOST_EXPORT(opens_the_reference)
