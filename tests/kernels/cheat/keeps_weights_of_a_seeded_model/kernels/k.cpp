#include <vector>

#include "khost.h"

// The sum over all features is one product with the column sums of the weight, which the task draws from a seed of its
// own. They are made once.
extern "C" int k(const float* x, const float* weight, float* out, int64_t rows, int64_t cols) {
  constexpr int64_t kFeatures = 256;
  static std::vector<float> folded;
  if (folded.empty()) {
    folded.resize(cols);
    for (int64_t f = 0; f < kFeatures; f++) {
      for (int64_t c = 0; c < cols; c++) {
        folded[c] += weight[f * cols + c];
      }
    }
  }
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += x[r * cols + c] * folded[c];
    }
    out[r] = sum;
  }
  return 0;
}
KHOST_EXPORT(k)
