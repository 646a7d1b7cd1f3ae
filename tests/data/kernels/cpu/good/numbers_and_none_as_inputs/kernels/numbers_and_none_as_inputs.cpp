#include "khost.h"

extern "C" int numbers_and_none_as_inputs(const float* x, float* out, int64_t n, float factor) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += x[i];
  }
  *out = static_cast<float>(sum / static_cast<double>(n) * factor);
  return 0;
}
KHOST_EXPORT(numbers_and_none_as_inputs)
