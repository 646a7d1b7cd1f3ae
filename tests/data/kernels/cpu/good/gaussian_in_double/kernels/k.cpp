#include "khost.h"
#include <cmath>
#include <algorithm>
#include <vector>

// exp(-5 x^2) to the fourth power: a few roundings.
extern "C" int k(const double* x, double* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) { double e = std::exp(-5 * x[i] * x[i]); e *= e; out[i] = e * e; }
  return 0;
}
KHOST_EXPORT(k)
