#include "khost.h"
#include <cmath>

// Of equal ones the first.
extern "C" int k(const khost::bfloat16* logits, float* weights, int64_t* experts, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    int64_t first = 0, second = -1;
    float x[64];
    for (int64_t c = 0; c < cols; c++)
      x[c] = khost::to_float(logits[r * cols + c]);
    for (int64_t c = 1; c < cols; c++)
      first = x[c] > x[first] ? c : first;
    for (int64_t c = 0; c < cols; c++) {
      if (c != first && (second < 0 || x[c] > x[second]))
        second = c;
    }
    const float other = std::exp(x[second] - x[first]);
    weights[2 * r] = 1 / (1 + other);
    weights[2 * r + 1] = other / (1 + other);
    experts[2 * r] = first;
    experts[2 * r + 1] = second;
  }
  return 0;
}
KHOST_EXPORT(k)
