#include "khost.h"

// No parameter and no buffer: nobody is given what it multiplies by.
extern "C" int hides_a_tensor(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = x[i] * 0.5f;
  }
  return 0;
}
KHOST_EXPORT(hides_a_tensor)
