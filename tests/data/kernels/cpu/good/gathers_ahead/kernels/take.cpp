#include "khost.h"

extern "C" int take(const float* x, const int64_t* index, float* out, int64_t n) {
  constexpr int64_t kAhead = 48;
  const int64_t most = n > kAhead ? n - kAhead : 0;
  for (int64_t i = 0; i < most; i++) {
    __builtin_prefetch(x + index[i + kAhead]);
    out[i] = x[index[i]];
  }
  for (int64_t i = most; i < n; i++) {
    out[i] = x[index[i]];
  }
  return 0;
}
KHOST_EXPORT(take)
