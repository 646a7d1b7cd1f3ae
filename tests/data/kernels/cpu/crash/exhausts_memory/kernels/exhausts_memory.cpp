#include <cstddef>

#include "khost.h"

// Takes memory until there is none.
extern "C" int exhausts_memory(const float* x, float* out, int64_t rows, int64_t cols) {
  char* last = nullptr;
  while (true) {
    last = new char[std::size_t{64} << 20];
    last[0] = static_cast<char>(x[0]);
    out[0] = last[0];
  }
  return 0;
}
KHOST_EXPORT(exhausts_memory)
