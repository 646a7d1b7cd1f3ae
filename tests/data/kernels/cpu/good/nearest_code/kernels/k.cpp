#include <algorithm>

#include "khost.h"

extern "C" int k(const float* x, const float* codes, float* out) {
  const int64_t rows = 16384, count = 1024, width = 32;
#pragma omp parallel for
  for (int64_t r = 0; r < rows; r++) {
    int64_t best = 0;
    float least = 1e30f;
    for (int64_t j = 0; j < count; j++) {
      float part[8] = {};
      for (int64_t i = 0; i < width; i += 8) {
        for (int64_t l = 0; l < 8; l++) {
          const float off = x[r * width + i + l] - codes[j * width + i + l];
          part[l] += off * off;
        }
      }
      const float sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
      if (sum < least) {
        least = sum;
        best = j;
      }
    }
    std::copy_n(codes + best * width, width, out + r * width);
  }
  return 0;
}
KHOST_EXPORT(k)
