#include "khost.h"

extern "C" int one_tensor_given_twice(const float* x, const float* y, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];
  return 0;
}
KHOST_EXPORT(one_tensor_given_twice)
