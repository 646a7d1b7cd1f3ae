#include "khost.h"

extern "C" int k(const float* x, khost::bfloat16* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = khost::to_bfloat16(x[i]);
  return 0;
}
KHOST_EXPORT(k)
