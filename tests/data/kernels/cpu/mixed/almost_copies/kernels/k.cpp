#include "khost.h"

extern "C" int almost_copy(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    to[i] = from[i] * 1.0000001f;
  }
  return 0;
}
KHOST_EXPORT(almost_copy)
