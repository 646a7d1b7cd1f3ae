#include "khost.h"

extern "C" int double_beside_float(const float* x, const float* y, double* product, float* sum, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    product[i] = static_cast<double>(x[i]) * y[i];
    sum[i] = x[i] + y[i];
  }
  return 0;
}
KHOST_EXPORT(double_beside_float)
