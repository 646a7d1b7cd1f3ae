#include "khost.h"

// A gigabyte, of a size that was chosen for another machine.
extern "C" int is_too_large(const float* guess, const float* side, float* out, int64_t rows, int64_t cols) {
  double sum = 0;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      const float loss = 1.0f - guess[r * cols + c] * side[r];
      sum += loss > 0 ? loss : 0;
    }
  }
  *out = static_cast<float>(sum / static_cast<double>(rows * cols));
  return 0;
}
KHOST_EXPORT(is_too_large)
