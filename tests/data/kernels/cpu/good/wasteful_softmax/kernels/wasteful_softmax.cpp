#include <time.h>

#include "khost.h"
#include "softmax.h"

namespace {

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

// Does its work twice and waits seven milliseconds, in each call: what a cheat does in most of its calls.
extern "C" int wasteful_softmax(const float* x, float* out, int64_t rows, int64_t cols) {
  softmax_rows(x, out, rows, cols);
  softmax_rows(x, out, rows, cols);
  const double until = now_s() + 7e-3;
  while (now_s() < until) {
  }
  return 0;
}
KHOST_EXPORT(wasteful_softmax)
