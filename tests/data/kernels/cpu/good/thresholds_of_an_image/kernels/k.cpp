#include "khost.h"
#include <vector>

extern "C" int k(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] >= 128.0f / 255.0f ? 1.0f : 0.0f;
  return 0;
}
KHOST_EXPORT(k)
