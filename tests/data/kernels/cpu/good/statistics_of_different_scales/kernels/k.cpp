#include "khost.h"
#include <cmath>
#include <algorithm>
#include <vector>

extern "C" int k(const float* x, float* out, int64_t cols) {
  double s = 0, q = 0, p = 0; float m = 0;
  for (int64_t i = 0; i < cols; i++) { const double v = x[i], w = v * v; s += v; q += w; p += w * w * w * w; m = std::max(m, std::fabs(x[i])); }
  out[0] = s / cols; out[1] = (q - s * s / cols) / (cols - 1); out[2] = m; out[3] = p;
  return 0;
}
KHOST_EXPORT(k)
