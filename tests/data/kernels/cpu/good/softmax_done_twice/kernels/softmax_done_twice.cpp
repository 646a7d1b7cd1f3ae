#include "khost.h"
#include "softmax.h"

// Does its work twice in each call: what a cheat does in most of its calls.
extern "C" int softmax_done_twice(const float* x, float* out, int64_t rows, int64_t cols) {
  softmax_rows(x, out, rows, cols);
  softmax_rows(x, out, rows, cols);
  return 0;
}
KHOST_EXPORT(softmax_done_twice)
