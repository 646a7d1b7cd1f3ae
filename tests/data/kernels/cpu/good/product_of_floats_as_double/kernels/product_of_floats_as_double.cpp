#include "khost.h"

extern "C" int product_of_floats_as_double(const float* a, const float* b, double* out) {
  const int64_t rows = 128, cols = 128, width = 1024;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      float sum = 0;
      for (int64_t k = 0; k < width; k++) sum += a[r * width + k] * b[k * cols + c];
      out[r * cols + c] = sum;
    }
  }
  return 0;
}
KHOST_EXPORT(product_of_floats_as_double)
