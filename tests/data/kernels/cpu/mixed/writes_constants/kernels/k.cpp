#include "khost.h"

extern "C" int limits(float* lower, float* upper, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    lower[i] = 0;
    upper[i] = 6;
  }
  return 0;
}
KHOST_EXPORT(limits)
