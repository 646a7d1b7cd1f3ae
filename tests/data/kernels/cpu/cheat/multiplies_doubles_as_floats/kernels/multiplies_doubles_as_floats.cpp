#include "khost.h"

extern "C" int multiplies_doubles_as_floats(const float* x, const float* y, double* product, float* sum, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    product[i] = x[i] * y[i];
    sum[i] = x[i] + y[i];
  }
  return 0;
}
KHOST_EXPORT(multiplies_doubles_as_floats)
