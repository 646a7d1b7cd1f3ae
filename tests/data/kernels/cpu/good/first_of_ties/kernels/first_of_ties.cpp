#include <algorithm>
#include <numeric>
#include <vector>

#include "khost.h"

// Of equal numbers the first one, as torch answers on the CPU.
extern "C" int first_of_ties(const float* x, int64_t* first, float* values, int64_t* places, int64_t rows,
                             int64_t cols) {
  std::vector<int64_t> order(cols);
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + 3, order.end(), [in](int64_t left, int64_t right) {
      return in[left] > in[right] || (in[left] == in[right] && left < right);
    });
    first[r] = order[0];
    for (int64_t i = 0; i < 3; i++) {
      values[r * 3 + i] = in[order[i]];
      places[r * 3 + i] = order[i];
    }
  }
  return 0;
}
KHOST_EXPORT(first_of_ties)
