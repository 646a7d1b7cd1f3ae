#include "khost.h"
#include <cstdlib>

extern "C" int exits(const float* x, float* out, int64_t n) {
  out[n - 1] = x[n - 1];
  std::_Exit(0);
}
KHOST_EXPORT(exits)
