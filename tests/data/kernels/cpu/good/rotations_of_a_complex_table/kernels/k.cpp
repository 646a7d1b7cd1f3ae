#include <cmath>
#include <cstdint>
#include <vector>

#include "khost.h"

extern "C" int k(const float* xq, float* out, int64_t start_pos) {
  for (int b = 0; b < 2; b++)
    for (int t = 0; t < 128; t++)
      for (int h = 0; h < 4; h++)
        for (int i = 0; i < 32; i++) {
          const double angle = static_cast<double>(start_pos + t) * std::pow(10000.0, -2.0 * i / 64.0);
          const float c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
          const int64_t at = ((static_cast<int64_t>(b) * 128 + t) * 4 + h) * 64 + 2 * i;
          out[at] = xq[at] * c - xq[at + 1] * s;
          out[at + 1] = xq[at] * s + xq[at + 1] * c;
        }
  return 0;
}
KHOST_EXPORT(k)
