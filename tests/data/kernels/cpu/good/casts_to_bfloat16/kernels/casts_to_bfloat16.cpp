#include <vector>

#include "khost.h"

constexpr int64_t kWide = 384;  // features of an output row

// Sums in double, rounded once: nothing nearer can be returned in this type.
extern "C" int casts_to_bfloat16(const float* x, const khost::bfloat16* weight, khost::bfloat16* out, int64_t rows,
                                 int64_t cols) {
  std::vector<double> row(cols);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      row[c] = khost::to_float(khost::to_bfloat16(x[r * cols + c]));
    }
    for (int64_t o = 0; o < kWide; o++) {
      double sum = 0;
      for (int64_t c = 0; c < cols; c++) {
        sum += row[c] * khost::to_float(weight[o * cols + c]);
      }
      out[r * kWide + o] = khost::to_bfloat16(static_cast<float>(sum));
    }
  }
  return 0;
}
KHOST_EXPORT(casts_to_bfloat16)
