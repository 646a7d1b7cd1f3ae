#include "khost.h"
#include "product_sum.h"

extern "C" int product_sum(const float* a, const float* b, float* out, int64_t rows, int64_t cols) {
  *out = product_sum(a, b, rows, cols);
  return 0;
}
KHOST_EXPORT(product_sum)
