#include <algorithm>

#include "khost.h"

// Two outputs are wanted, one is computed.
extern "C" int forgets_an_output(const float* x, float* most, float* least, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    most[r] = *std::max_element(x + r * cols, x + (r + 1) * cols);
  }
  least[0] = least[0];
  return 0;
}
KHOST_EXPORT(forgets_an_output)
