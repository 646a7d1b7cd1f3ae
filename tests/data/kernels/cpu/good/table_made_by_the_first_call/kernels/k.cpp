#include <cmath>

#include "khost.h"

extern "C" int k(const float* x, const float* rotary_inv_freq, float* out) {
  const int64_t batch = 2, tokens = 512, heads = 8, half = 32;
  for (int64_t t = 0; t < tokens; t++) {
    for (int64_t i = 0; i < half; i++) {
      const float angle = static_cast<float>(t) * rotary_inv_freq[i];
      const float c = std::cos(angle), s = std::sin(angle);
      for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
          const int64_t at = ((b * tokens + t) * heads + h) * 2 * half + i;
          out[at] = x[at] * c - x[at + half] * s;
          out[at + half] = x[at + half] * c + x[at] * s;
        }
      }
    }
  }
  return 0;
}
KHOST_EXPORT(k)
