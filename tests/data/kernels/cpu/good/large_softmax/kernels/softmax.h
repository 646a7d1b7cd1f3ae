// Softmax of the rows of a matrix, one row after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

inline void softmax_row(const float* in, float* to, int64_t cols) {
  const float most = *std::max_element(in, in + cols);
  float sum = 0;
  for (int64_t c = 0; c < cols; c++) {
    sum += to[c] = std::exp(in[c] - most);
  }
  for (int64_t c = 0; c < cols; c++) {
    to[c] /= sum;
  }
}

inline void softmax_rows(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    softmax_row(x + r * cols, out + r * cols, cols);
  }
}
