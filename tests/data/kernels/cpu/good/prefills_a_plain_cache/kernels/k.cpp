#include <algorithm>
#include <cmath>
#include <vector>

#include "khost.h"

namespace {

constexpr int64_t kTokens = 128, kWidth = 64;

void linear(const float* x, const float* weight, float* y) {
  for (int64_t t = 0; t < kTokens; t++) {
    for (int64_t o = 0; o < kWidth; o++) {
      float sum = 0;
      for (int64_t i = 0; i < kWidth; i++) sum += x[t * kWidth + i] * weight[o * kWidth + i];
      y[t * kWidth + o] = sum;
    }
  }
}

}  // namespace

extern "C" int k(const float* x, const float* wq_weight, const float* wk_weight, const float* wv_weight, float* out) {
  std::vector<float> q(kTokens * kWidth), keys(kTokens * kWidth), values(kTokens * kWidth);
  for (int64_t b = 0; b < 8; b++) {
    const float* in = x + b * kTokens * kWidth;
    linear(in, wq_weight, q.data());
    linear(in, wk_weight, keys.data());
    linear(in, wv_weight, values.data());
    for (int64_t t = 0; t < kTokens; t++) {
      float p[kTokens], top = -INFINITY, total = 0;
      for (int64_t s = 0; s < kTokens; s++) {
        float sum = 0;
        for (int64_t i = 0; i < kWidth; i++) sum += q[t * kWidth + i] * keys[s * kWidth + i];
        p[s] = sum / 8;
        top = std::max(top, p[s]);
      }
      float* row = out + (b * kTokens + t) * kWidth;
      std::fill(row, row + kWidth, 0.0f);
      for (int64_t s = 0; s < kTokens; s++) {
        const float weight = std::exp(p[s] - top);
        total += weight;
        for (int64_t i = 0; i < kWidth; i++) row[i] += weight * values[s * kWidth + i];
      }
      for (int64_t i = 0; i < kWidth; i++) row[i] /= total;
    }
  }
  return 0;
}
KHOST_EXPORT(k)
