#include "khost.h"

extern "C" int error_code(const float* x, float* out, int64_t n) {
  return x == nullptr || out == nullptr || n == 0 ? 1 : 42;
}
KHOST_EXPORT(error_code)
