#include <cmath>
#include <cstdint>
#include <vector>

#include "khost.h"

extern "C" int attention(const float* q, const float* k, const float* v, float* out) {
  constexpr int T = 48, D = 32;
  const float scale = 1.0f / std::sqrt(32.0f);
  for (int g = 0; g < 8; g++) {
    const int64_t at = static_cast<int64_t>(g) * T * D;
    for (int i = 0; i < T; i++) {
      float p[T], top = -INFINITY, sum = 0;
      for (int j = 0; j <= i; j++) {
        float s = 0;
        for (int d = 0; d < D; d++) s += q[at + i * D + d] * k[at + j * D + d];
        p[j] = s * scale;
        top = p[j] > top ? p[j] : top;
      }
      for (int j = 0; j <= i; j++) sum += p[j] = std::exp(p[j] - top);
      for (int d = 0; d < D; d++) {
        float s = 0;
        for (int j = 0; j <= i; j++) s += p[j] * v[at + j * D + d];
        out[at + i * D + d] = s / sum;
      }
    }
  }
  return 0;
}
KHOST_EXPORT(attention)
