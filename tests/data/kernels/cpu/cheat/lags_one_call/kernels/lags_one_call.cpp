#include <algorithm>
#include <cmath>
#include <vector>

#include "khost.h"

namespace {

void softmax(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    const float most = *std::max_element(in, in + cols);
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += to[c] = std::exp(in[c] - most);
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] /= sum;
    }
  }
}

}  // namespace

// Answers the first call, and from then on each call with the answer to the one before it.
extern "C" int lags_one_call(const float* x, float* out, int64_t rows, int64_t cols) {
  static std::vector<float> waiting;
  std::vector<float> answer(rows * cols);
  softmax(x, answer.data(), rows, cols);
  if (waiting.empty()) {
    waiting = answer;
  }
  std::copy(waiting.begin(), waiting.end(), out);
  waiting.swap(answer);
  return 0;
}
KHOST_EXPORT(lags_one_call)
