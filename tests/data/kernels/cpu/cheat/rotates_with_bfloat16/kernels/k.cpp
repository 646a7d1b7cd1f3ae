#include "khost.h"
#include <cmath>
#include <cstring>
#include <algorithm>
#include <vector>

// Sines and cosines are rounded to bfloat16.
static float bf(float v) { uint32_t b; std::memcpy(&b, &v, 4); b = (b + 0x7fff + ((b >> 16) & 1)) & 0xffff0000u; std::memcpy(&v, &b, 4); return v; }
extern "C" int k(const float* x, const float* y, const float* f, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const float a = (float)r * f[c];
      out[r * cols + c] = x[r * cols + c] * bf((float)std::cos((double)a)) + y[r * cols + c] * bf((float)std::sin((double)a));
    }
  return 0;
}
KHOST_EXPORT(k)
