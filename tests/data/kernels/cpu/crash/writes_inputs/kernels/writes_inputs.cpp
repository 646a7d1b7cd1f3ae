#include "khost.h"

extern "C" int writes_inputs(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const_cast<float*>(x)[i] = 0;
    out[i] = 0;
  }
  return 0;
}
KHOST_EXPORT(writes_inputs)
