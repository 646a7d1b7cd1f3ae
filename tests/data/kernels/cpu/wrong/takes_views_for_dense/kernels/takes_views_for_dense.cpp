#include "khost.h"

// Takes every tensor for contiguous, and reads beyond the one row of `bias`.
extern "C" int takes_views_for_dense(const float* x, const float* bias, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float value = x[i] + bias[i];
    out[i] = value > 0 ? value : 0;
  }
  return 0;
}
KHOST_EXPORT(takes_views_for_dense)
