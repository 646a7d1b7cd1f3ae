#include "khost.h"

extern "C" int rewrite(float* y, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    y[i] = y[i] < 0 ? 0 : y[i];
  }
  return 0;
}
KHOST_EXPORT(rewrite)
