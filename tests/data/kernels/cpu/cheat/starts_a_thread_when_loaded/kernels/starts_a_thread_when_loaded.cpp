#include <cstdlib>
#include <thread>

#include "khost.h"
#include "softmax.h"

namespace {

__attribute__((constructor)) void when_loaded() {
  std::thread([] {
    for (volatile unsigned turns = 0;;) {
      turns = turns + 1;
    }
  }).detach();
  std::atexit([] {
    while (true) {
    }
  });
}

}  // namespace

// The core is never free, also between calls, and whoever waits for its exit waits long.
extern "C" int starts_a_thread_when_loaded(const float* x, float* out, int64_t rows, int64_t cols) {
  softmax_rows(x, out, rows, cols);
  return 0;
}
KHOST_EXPORT(starts_a_thread_when_loaded)
