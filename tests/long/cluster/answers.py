"""What a good and a bad model would answer to the two tasks: kernels whose rewards are known, with a wide margin."""

CHAIN = """#include "khost.h"
extern "C" int chain(const float* x, float* out, int64_t n) {
  for (int pass = 0; pass < %d; pass++) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
      float y = x[i];
      for (int k = 0; k < 12; k++) y = (y > 0 ? y : 0) * 1.25f - 0.5f;
      out[i] = y;
    }
    asm volatile("" ::: "memory");
  }
  return 0;
}
KHOST_EXPORT(chain)
"""
DIAGONAL = """#include "khost.h"
extern "C" int diagonal(const float* scale, const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = scale[i / 1024] * x[i] + %s;
  return 0;
}
KHOST_EXPORT(diagonal)
"""
# A task's name, a kernel, its reward: wrong; as slow as eager or slower; faster than eager alone; faster than both.
KERNELS = {
    -1: ("diagonal", DIAGONAL % "1.0f"),
    1: ("chain", CHAIN % 60),
    2: ("chain", CHAIN % 4),
    3: ("diagonal", DIAGONAL % "0.0f"),
}


def block(code):
    """A kernel as the answer of chat format `files`."""
    return "```cpp\n" + code + "```"
