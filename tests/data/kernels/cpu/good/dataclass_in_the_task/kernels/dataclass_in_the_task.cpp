#include "khost.h"

extern "C" int dataclass_in_the_task(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : x[i] * 0.1f) * 0.5f + 1.0f;
  }
  return 0;
}
KHOST_EXPORT(dataclass_in_the_task)
