#include <algorithm>
#include <cmath>

#include "khost.h"

// Matrices of 48 x 48, of which the lower triangle is read.
extern "C" int cholesky(const float* a, float* out, int64_t n) {
  constexpr int64_t kSide = 48;
  std::fill(out, out + n, 0.0f);
  for (int64_t base = 0; base < n; base += kSide * kSide) {
    const float* in = a + base;
    float* to = out + base;
    for (int64_t c = 0; c < kSide; c++) {
      for (int64_t r = c; r < kSide; r++) {
        double rest = in[r * kSide + c];
        for (int64_t k = 0; k < c; k++) {
          rest -= static_cast<double>(to[r * kSide + k]) * to[c * kSide + k];
        }
        to[r * kSide + c] = static_cast<float>(r == c ? std::sqrt(rest) : rest / to[c * kSide + c]);
      }
    }
  }
  return 0;
}
KHOST_EXPORT(cholesky)
