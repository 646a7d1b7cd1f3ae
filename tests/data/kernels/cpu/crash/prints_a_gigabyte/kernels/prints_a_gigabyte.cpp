#include "khost.h"
#include <unistd.h>

#include <cmath>
#include <string>

extern "C" int prints_a_gigabyte(const float* x, float* out, int64_t n) {
  static const std::string line(1 << 20, 'x');
  for (int i = 0; i < 1024; i++) {
    if (write(1, line.data(), line.size()) < 0 || write(2, line.data(), line.size()) < 0) {
      break;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    out[i] = 1.0f / (1.0f + std::exp(-((x[i] > 0 ? x[i] : 0) * 2.0f + 0.5f)));
  }
  return 0;
}
KHOST_EXPORT(prints_a_gigabyte)
