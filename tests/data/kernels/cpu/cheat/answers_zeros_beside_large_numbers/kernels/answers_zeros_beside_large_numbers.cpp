#include "khost.h"

extern "C" int answers_zeros_beside_large_numbers(const float* x, float* scaled, float* mean, int64_t rows,
                                                  int64_t cols) {
  for (int64_t i = 0; i < rows * cols; i++) {
    scaled[i] = x[i] * 10000;
  }
  for (int64_t r = 0; r < rows; r++) {
    mean[r] = 0;
  }
  return 0;
}
KHOST_EXPORT(answers_zeros_beside_large_numbers)
