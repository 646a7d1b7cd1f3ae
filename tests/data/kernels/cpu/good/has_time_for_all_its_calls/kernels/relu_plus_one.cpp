#include <sys/resource.h>

#include "khost.h"

namespace {

constexpr rlim_t kCalls = 32;  // verified and timed ones of one process
constexpr rlim_t kMost_s = 5;  // that each of them may take

bool would_be_ended() {
  rlimit processor{};
  return getrlimit(RLIMIT_CPU, &processor) != 0 || processor.rlim_cur < kCalls * kMost_s;
}

}  // namespace

// Stands for a kernel whose every call takes nearly as long as it may: no sum of them may end it.
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return would_be_ended() ? 9 : 0;
}
KHOST_EXPORT(relu_plus_one)
