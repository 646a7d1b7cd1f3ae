#include "khost.h"

extern "C" int scale_weight(const float* weight, const float* scale, float* out, int64_t filters, int64_t size) {
  for (int64_t f = 0; f < filters; f++) {
    for (int64_t k = 0; k < size; k++) {
      out[f * size + k] = weight[f * size + k] * scale[f];
    }
  }
  return 0;
}
KHOST_EXPORT(scale_weight)
