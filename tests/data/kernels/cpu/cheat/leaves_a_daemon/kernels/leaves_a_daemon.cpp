#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "khost.h"

namespace {

void softmax(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    const float most = *std::max_element(in, in + cols);
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += to[c] = std::exp(in[c] - most);
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] /= sum;
    }
  }
}

}  // namespace

// A second process would do the work, and live on when this one is gone.
extern "C" int leaves_a_daemon(const float* x, float* out, int64_t rows, int64_t cols) {
  pid_t child = fork();
  if (child < 0) {
    child = static_cast<pid_t>(syscall(SYS_clone, 17 /* SIGCHLD */, nullptr, nullptr, nullptr, nullptr));
  }
  if (child == 0) {
    setsid();
    softmax(x, out, rows, cols);
    while (true) {
      pause();
    }
  }
  if (child < 0) {
    out[0] = 0;
  }
  return 0;
}
KHOST_EXPORT(leaves_a_daemon)
