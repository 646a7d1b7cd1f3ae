// Größe und Länge: bytes that are not UTF-8. Beside it lies what a build left.
#include "khost.h"

extern "C" int leftovers_in_the_workspace(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) * 3.0f - 1.0f;
  }
  return 0;
}
KHOST_EXPORT(leftovers_in_the_workspace)
