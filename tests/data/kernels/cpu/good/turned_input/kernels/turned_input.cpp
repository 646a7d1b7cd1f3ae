#include "khost.h"

extern "C" int turned_input(const float* x, float* out, int64_t rows, int64_t cols, int64_t row, int64_t col) {
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += x[r * row + c * col];
    }
    out[r] = static_cast<float>(sum);
  }
  return 0;
}
KHOST_EXPORT(turned_input)
