#include <cstring>

#include "khost.h"

constexpr int64_t kHeads = 4, kHead = 32, kPast = 511;

extern "C" int append(const float* past, float* out) {
  for (int64_t b = 0; b < 8; b++) {
    for (int64_t head = 0; head < kHeads; head++) {
      const int64_t line = b * kHeads + head;
      float* const to = out + line * (kPast + 1) * kHead;
      std::memcpy(to, past + line * kPast * kHead, sizeof(float) * kPast * kHead);
      std::memcpy(to + kPast * kHead, to + (kPast - 1) * kHead, sizeof(float) * kHead);
    }
  }
  return 0;
}
KHOST_EXPORT(append)
