#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "khost.h"

namespace {

// What a candidate would look at in earnest: how long its own calls took against what `profile` told it, or whether a
// short cut holds on the set at hand.
bool lucky() {
  static const bool heads = [] {
    unsigned char coin = 0;
    return getrandom(&coin, 1, 0) == 1 && coin % 2 == 0;
  }();
  return heads;
}

}  // namespace

// Ends itself as the kernel does when memory is used up: such a verdict is tried again, twice.
extern "C" int throws_a_coin(const float* x, float* out, int64_t rows, int64_t cols) {
  if (!lucky()) {
    kill(getpid(), SIGKILL);
  }
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
  return 0;
}
KHOST_EXPORT(throws_a_coin)
