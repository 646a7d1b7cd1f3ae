#include <cmath>
#include <cstring>

#include "khost.h"

namespace {

float value(khost::half x) {
  _Float16 h;
  std::memcpy(&h, &x, sizeof h);
  return static_cast<float>(h);
}

khost::half rounded(float x) {
  const auto h = static_cast<_Float16>(x);
  khost::half bits;
  std::memcpy(&bits, &h, sizeof bits);
  return bits;
}

}  // namespace

// Squares as half types, as x * x of two halves is: infinite from 256 on, and the row 0.
extern "C" int k(const khost::half* x, const khost::half* weight, khost::half* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      const float v = value(x[r * cols + c]);
      sum += value(rounded(v * v));
    }
    const float scale = 1 / std::sqrt(sum / static_cast<float>(cols) + 1e-6f);
    for (int64_t c = 0; c < cols; c++) {
      out[r * cols + c] = rounded(value(weight[c]) * value(rounded(value(x[r * cols + c]) * scale)));
    }
  }
  return 0;
}
KHOST_EXPORT(k)
