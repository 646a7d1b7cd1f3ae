#include "khost.h"

extern "C" int segfault(const float* x, float* out, int64_t n) {
  *reinterpret_cast<volatile int*>(n - n) = 1;
  return static_cast<int>(x[0] - x[0] + (out == nullptr));
}
KHOST_EXPORT(segfault)
