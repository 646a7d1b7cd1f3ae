#include "khost.h"

extern "C" int outputs_of_three_types(const float* x, const int64_t* y, double* third, int32_t* more, uint8_t* rest,
                                      int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    third[i] = static_cast<double>(x[i]) / 3;
    more[i] = static_cast<int32_t>(y[i]) + 7;
    rest[i] = static_cast<uint8_t>(y[i] % 5);
  }
  return 0;
}
KHOST_EXPORT(outputs_of_three_types)
