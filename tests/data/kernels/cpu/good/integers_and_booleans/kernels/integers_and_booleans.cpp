#include "khost.h"

extern "C" int integers_and_booleans(const int64_t* x, const bool* allowed, bool* large, int64_t* odd, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    large[i] = x[i] > 3 && allowed[i];
    odd[i] = x[i] * 2 - 1;
  }
  return 0;
}
KHOST_EXPORT(integers_and_booleans)
