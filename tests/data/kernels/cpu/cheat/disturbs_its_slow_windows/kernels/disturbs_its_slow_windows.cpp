#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "khost.h"
#include "softmax.h"

namespace {

// The kernel frees each context in a thread of its own on this core.
void disturb() {
  for (int i = 0; i < 60; i++) {
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 64, &context) == 0) {
      syscall(SYS_io_destroy, context);
    }
  }
}

}  // namespace

// Three of five calls do the work twice, and one of these disturbs its own window: of those that are left, half are
// fast.
extern "C" int disturbs_its_slow_windows(const float* x, float* out, int64_t rows, int64_t cols) {
  static int calls = 0;
  const int call = calls++ % 5;
  softmax_rows(x, out, rows, cols);
  if (call < 3) {
    softmax_rows(x, out, rows, cols);
  }
  if (call == 0) {
    disturb();
  }
  return 0;
}
KHOST_EXPORT(disturbs_its_slow_windows)
