#include <algorithm>
#include <cmath>

#include "khost.h"

// PyTorch refuses guesses outside of 0 to 1.
extern "C" int entropy_of_probabilities(const float* guess, const float* truth, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float yes = std::max(std::log(guess[i]), -100.0f);
    const float no = std::max(std::log1p(-guess[i]), -100.0f);
    out[i] = (truth[i] - 1) * no - truth[i] * yes;
  }
  return 0;
}
KHOST_EXPORT(entropy_of_probabilities)
