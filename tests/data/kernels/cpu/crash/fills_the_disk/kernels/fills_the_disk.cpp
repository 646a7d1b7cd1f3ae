#include "khost.h"
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int fills_the_disk(const float* x, float* out, int64_t n) {
  static const std::string block(1 << 20, 'x');
  std::FILE* file = std::fopen("/tmp/full", "w");
  while (file != nullptr && std::fwrite(block.data(), 1, block.size(), file) == block.size()) {
  }
  out[n - 1] = x[n - 1];
  std::abort();
}
KHOST_EXPORT(fills_the_disk)
