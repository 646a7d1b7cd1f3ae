#include "trainer/model/kernels.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define KHOST_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KHOST_CLONES
#endif

namespace khost::trainer::kernels {
namespace {

// GCC does not reorder float sums by itself; eight explicit lanes make a reduction that it can keep in a register.
using Lanes = float __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int64_t kLanes = 8;

[[gnu::always_inline]] inline float dot(const float* a, const float* b, int64_t n) {
  Lanes sum0 = {};
  Lanes sum1 = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum0 += *reinterpret_cast<const Lanes*>(a + i) * *reinterpret_cast<const Lanes*>(b + i);
    sum1 += *reinterpret_cast<const Lanes*>(a + i + kLanes) * *reinterpret_cast<const Lanes*>(b + i + kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) {
    sum0 += *reinterpret_cast<const Lanes*>(a + i) * *reinterpret_cast<const Lanes*>(b + i);
  }
  sum0 += sum1;
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    total += sum0[lane];
  }
  for (; i < n; ++i) {
    total += a[i] * b[i];
  }
  return total;
}

// exp to about 2 ulp, without a branch, so that loops over it vectorise (Cephes expf).
[[gnu::always_inline]] inline float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23 rounds to a whole number
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

}  // namespace

KHOST_CLONES
void rms_norm(const float* x, const float* weight, float* y, float* inverse, int64_t rows, int64_t width,
              float epsilon) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    const float scale = 1.0f / std::sqrt(dot(x, x, width) / static_cast<float>(width) + epsilon);
    inverse[r] = scale;
    for (int64_t i = 0; i < width; ++i) {
      y[i] = x[i] * scale * weight[i];
    }
  }
}

// With s = 1/rms: dx = s (w dy) - x s^3 mean(w dy x).
KHOST_CLONES
void rms_norm_backward(const float* x, const float* weight, const float* inverse, const float* dy, float* dx,
                       float* dweight, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const float scale = inverse[r];
    for (int64_t i = 0; i < width; ++i) {
      dx[i] = weight[i] * dy[i];
      dweight[i] += dy[i] * x[i] * scale;
    }
    const float pull = dot(dx, x, width) * scale * scale * scale / static_cast<float>(width);
    for (int64_t i = 0; i < width; ++i) {
      dx[i] = dx[i] * scale - x[i] * pull;
    }
  }
}

KHOST_CLONES
void swiglu(const float* gate_up, float* out, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, gate_up += 2 * width, out += width) {
    const float* up = gate_up + width;
    for (int64_t i = 0; i < width; ++i) {
      out[i] = gate_up[i] / (1.0f + fast_exp(-gate_up[i])) * up[i];
    }
  }
}

KHOST_CLONES
void swiglu_backward(const float* gate_up, const float* dout, float* dgate_up, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, gate_up += 2 * width, dgate_up += 2 * width, dout += width) {
    const float* up = gate_up + width;
    float* dup = dgate_up + width;
    for (int64_t i = 0; i < width; ++i) {
      const float gate = gate_up[i];
      const float sigmoid = 1.0f / (1.0f + fast_exp(-gate));
      dup[i] = dout[i] * gate * sigmoid;
      dgate_up[i] = dout[i] * up[i] * sigmoid * (1.0f + gate * (1.0f - sigmoid));
    }
  }
}

KHOST_CLONES
void rotate(const float* from, float* to, const float* cosine, const float* sine, int64_t size, float sine_sign) {
  const int64_t half = size / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float a = from[i];
    const float b = from[i + half];
    const float s = sine[i] * sine_sign;
    to[i] = a * cosine[i] - b * s;
    to[i + half] = b * cosine[i] + a * s;
  }
}

KHOST_CLONES
void attend(const float* query, const float* keys, const float* values, float* out, float* scores, int64_t length,
            int64_t size, float scale) {
  float highest = -INFINITY;
  for (int64_t t = 0; t < length; ++t) {
    scores[t] = dot(query, keys + t * size, size) * scale;
    highest = scores[t] > highest ? scores[t] : highest;
  }
  for (int64_t t = 0; t < length; ++t) {
    scores[t] = fast_exp(scores[t] - highest);
  }
  for (int64_t i = 0; i < size; ++i) {
    out[i] = 0;
  }
  float total = 0;
  for (int64_t t = 0; t < length; ++t) {
    const float weight = scores[t];
    const float* value = values + t * size;
    total += weight;
    for (int64_t i = 0; i < size; ++i) {
      out[i] += weight * value[i];
    }
  }
  const float norm = 1.0f / total;
  for (int64_t i = 0; i < size; ++i) {
    out[i] *= norm;
  }
}

}  // namespace khost::trainer::kernels
