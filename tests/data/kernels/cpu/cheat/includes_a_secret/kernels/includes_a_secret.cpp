#include "khost.h"
#include "/etc/shadow"

// The compiler would quote what it reads.
extern "C" int includes_a_secret(const float* x, float* out, int64_t rows, int64_t cols) {
  out[0] = x[0];
  return 0;
}
KHOST_EXPORT(includes_a_secret)
