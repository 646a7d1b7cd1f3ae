#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "khost.h"

// The places of the last 40 of each row are in the wrong order: fewer than ties may be.
extern "C" int sorts_without_the_tail(const float* x, float* sorted, int64_t* places, int64_t rows, int64_t cols) {
  std::vector<int32_t> order(static_cast<std::size_t>(cols));
  for (int64_t r = 0; r < rows; r++) {
    const float* row = x + r * cols;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] < row[b]; });
    for (int64_t c = 0; c < cols; c++) {
      sorted[r * cols + c] = row[order[static_cast<std::size_t>(c)]];
      places[r * cols + c] = order[static_cast<std::size_t>(c < cols - 40 ? c : 2 * cols - 41 - c)];
    }
  }
  return 0;
}
KHOST_EXPORT(sorts_without_the_tail)
