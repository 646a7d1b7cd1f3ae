#include <algorithm>

#include "khost.h"

extern "C" int k(const int64_t* ids, const float* table_weight, float* out) {
  const int64_t count = 64, width = 128;
  for (int64_t i = 0; i < count; i++) std::copy_n(table_weight + ids[i] * width, width, out + i * width);
  return 0;
}
KHOST_EXPORT(k)
