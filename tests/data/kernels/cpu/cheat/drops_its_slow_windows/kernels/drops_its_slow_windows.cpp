#include <time.h>

#include <thread>

#include "khost.h"
#include "softmax.h"

namespace {

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

// Two of three calls do the work twice, and then two threads want the one core. The time that should count is theirs.
extern "C" int drops_its_slow_windows(const float* x, float* out, int64_t rows, int64_t cols) {
  static int call = 0;
  softmax_rows(x, out, rows, cols);
  if (++call % 3 != 0) {
    softmax_rows(x, out, rows, cols);
    const double until = now_s() + 7e-3;
    std::thread other([until] {
      while (now_s() < until) {
      }
    });
    while (now_s() < until) {
    }
    other.join();
  }
  return 0;
}
KHOST_EXPORT(drops_its_slow_windows)
