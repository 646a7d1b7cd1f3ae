// The sum of the positive elements of a product of square matrices.
#pragma once

#include <cstdint>
#include <vector>

inline float product_sum(const float* a, const float* b, int64_t rows, int64_t cols) {
  std::vector<float> row(cols);
  double total = 0;
  for (int64_t r = 0; r < rows; r++) {
    row.assign(cols, 0.0f);
    for (int64_t k = 0; k < cols; k++) {
      const float value = a[r * cols + k];
      for (int64_t c = 0; c < cols; c++) {
        row[c] += value * b[k * cols + c];
      }
    }
    for (const float value : row) {
      total += value > 0 ? value : 0;
    }
  }
  return static_cast<float>(total);
}
