"""What a good and a bad model would answer to the two tasks: kernels whose rewards are known, with a wide margin.

Both tasks multiply by a diagonal matrix, which eager PyTorch and torch.compile do in full (80 ms of a core, and 45 in
`chain`); `chain` has 144 small operators behind it, which eager runs one by one (50 ms and more) and torch.compile fuses
(3 ms). A kernel needs 2 to 10 ms, and takes as long as it shall by passes over the same data. No window is shorter than
40 ms: what others do where it begins is a small part of it. How many passes lie between both baselines depends on the
machine, so `fit` asks for it."""

import json
import math
import urllib.request

CHAIN = """#include "khost.h"
#include <cmath>
extern "C" int chain(const float* scale, const float* x, float* out, int64_t n) {
  for (int pass = 0; pass < %d; pass++) {
    for (int64_t begin = 0; begin < n; begin += 1280) {
      const float factor = scale[begin / 1280];
#pragma omp simd
      for (int64_t i = begin; i < begin + 1280; i++) {
        float y = factor * x[i];
        for (int k = 0; k < 48; k++) y = std::fabs(y * 1.0625f - 0.5f);
        out[i] = y;
      }
    }
    asm volatile("" ::: "memory");
  }
  return 0;
}
KHOST_EXPORT(chain)
"""
DIAGONAL = """#include "khost.h"
extern "C" int diagonal(const float* scale, const float* x, float* out, int64_t n) {
  for (int pass = 0; pass < 30; pass++) {
    for (int64_t i = 0; i < n; i++) out[i] = scale[i / 1536] * x[i] + %s;
    asm volatile("" ::: "memory");
  }
  return 0;
}
KHOST_EXPORT(diagonal)
"""
# A task's name, a kernel, its reward: wrong; slower than eager; faster than eager alone; faster than both.
KERNELS = {
    -1: ("diagonal", DIAGONAL % "1.0f"),
    1: ("chain", CHAIN % 60),
    2: ("chain", CHAIN % 20),
    3: ("diagonal", DIAGONAL % "0.0f"),
}


def fit(service):
    """Sets the kernel of reward 2 to the passes that lie in the middle of both baselines here, and that of 1 to twice those of
    eager, from the times of one verdict."""
    body = json.dumps({"task": "chain", "files": {"kernels/k.cpp": CHAIN % 10}, "measure": True}).encode()
    asked = urllib.request.Request(service.url + "/v1/verdict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=600) as answer:
        times = json.load(answer)["verdict"]["times"]
    passes = [max(1, round(10 * time / times["candidate_s"]))
              for time in (math.sqrt(times["eager_s"] * times["compile_s"]), 2 * times["eager_s"])]
    KERNELS[2], KERNELS[1] = ("chain", CHAIN % passes[0]), ("chain", CHAIN % passes[1])
    return passes


def block(code):
    """A kernel as the answer of chat format `files`."""
    return "```cpp\n" + code + "```"
