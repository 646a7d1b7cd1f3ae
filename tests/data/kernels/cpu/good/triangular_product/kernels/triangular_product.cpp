#include <algorithm>

#include "khost.h"

// Both factors are zero below the diagonal, always: what is multiplied by that need not be.
extern "C" int triangular_product(const float* left, const float* right, float* out, int64_t rows, int64_t cols) {
  std::fill(out, out + rows * cols, 0.0f);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t k = r; k < cols; k++) {
      const float value = left[r * cols + k];
      for (int64_t c = k; c < cols; c++) {
        out[r * cols + c] += value * right[k * cols + c];
      }
    }
  }
  return 0;
}
KHOST_EXPORT(triangular_product)
