#include "khost.h"

namespace {

float narrow(float value) {
  return khost::to_float(khost::to_bfloat16(value));
}

}  // namespace

extern "C" int divides_in_bfloat16(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = narrow(narrow(a[i]) / b[i]);
  }
  return 0;
}
KHOST_EXPORT(divides_in_bfloat16)
