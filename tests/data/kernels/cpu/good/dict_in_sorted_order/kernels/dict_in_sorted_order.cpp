#include "khost.h"

extern "C" int dict_in_sorted_order(const float* x, float* sums, int64_t* places, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    double sum = 0;
    int64_t best = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += in[c];
      best = in[c] > in[best] ? c : best;
    }
    sums[r] = static_cast<float>(sum);
    places[r] = best;
  }
  return 0;
}
KHOST_EXPORT(dict_in_sorted_order)
