#include "khost.h"
#include <unistd.h>

#include <cstdlib>

extern "C" int forks_without_end(const float* x, float* out, int64_t n) {
  for (int i = 0; i < 100000; i++) {
    if (fork() < 0) {
      std::abort();
    }
  }
  out[n - 1] = x[n - 1];
  return 1;
}
KHOST_EXPORT(forks_without_end)
