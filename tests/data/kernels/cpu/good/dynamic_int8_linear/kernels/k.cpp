#include <algorithm>
#include <cmath>

#include "khost.h"

extern "C" int k(const float* x, const float* weight, const float* scale, float* out) {
  for (int r = 0; r < 64; r++) {
    float most = 0;
    for (int i = 0; i < 256; i++) most = std::max(most, std::fabs(x[r * 256 + i]));
    const float step = most / 127, inverse = 127 / most;
    float q[256];
    for (int i = 0; i < 256; i++) q[i] = std::min(127.0f, std::max(-127.0f, std::nearbyint(x[r * 256 + i] * inverse)));
    for (int c = 0; c < 128; c++) {
      float sum = 0;
      for (int i = 0; i < 256; i++) sum += q[i] * weight[c * 256 + i];
      out[r * 128 + c] = sum * step * scale[c];
    }
  }
  return 0;
}
KHOST_EXPORT(k)
