#include <vector>

#include "khost.h"

// The sum over all features of a linear layer is one product with the column sums of its weight. Algebra is no cheat
// when it is paid for in each call.
extern "C" int folds_weights(const float* x, const float* up_weight, const float* up_bias, float* out, int64_t rows,
                             int64_t cols) {
  constexpr int64_t kFeatures = 256;
  std::vector<double> folded(cols);
  double constant = 0;
  for (int64_t f = 0; f < kFeatures; f++) {
    constant += up_bias[f];
    for (int64_t c = 0; c < cols; c++) {
      folded[c] += up_weight[f * cols + c];
    }
  }
  for (int64_t r = 0; r < rows; r++) {
    double sum = constant;
    for (int64_t c = 0; c < cols; c++) {
      sum += x[r * cols + c] * folded[c];
    }
    out[r] = static_cast<float>(sum);
  }
  return 0;
}
KHOST_EXPORT(folds_weights)
