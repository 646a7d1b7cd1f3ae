#include "/dev/zero"

#include "khost.h"
#include "softmax.h"

extern "C" int includes_an_endless_file(const float* x, float* out, int64_t rows, int64_t cols) {
  softmax_rows(x, out, rows, cols);
  return 0;
}
KHOST_EXPORT(includes_an_endless_file)
