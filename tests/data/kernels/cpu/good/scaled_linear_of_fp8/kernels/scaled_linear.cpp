#include <cmath>

#include "khost.h"

constexpr int64_t kInputs = 512, kOutputs = 384;

// The number whose bits, in the format e4m3, are these: one of sign, four of the exponent, three of the significand.
static float of_e4m3(int bits) {
  const int exponent = (bits >> 3) & 15, significand = bits & 7;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(significand), -9)
                                   : std::ldexp(1.0f + significand / 8.0f, exponent - 7);
  return (bits & 128) != 0 ? -size : size;
}

extern "C" int scaled_linear(const std::uint8_t* x, const float* x_scale, const std::uint8_t* weight,
                             const float* weight_scale, float* out, int64_t rows) {
  float number[256];
  for (int bits = 0; bits < 256; bits++) {
    number[bits] = of_e4m3(bits);
  }
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t o = 0; o < kOutputs; o++) {
      float sum = 0;
      for (int64_t k = 0; k < kInputs; k++) {
        sum += number[x[r * kInputs + k]] * number[weight[o * kInputs + k]];
      }
      out[r * kOutputs + o] = sum * x_scale[r] * weight_scale[o];
    }
  }
  return 0;
}
KHOST_EXPORT(scaled_linear)
