#include <cmath>

#include "khost.h"

extern "C" int statistics_in_training(const float* x, const float* weight, const float* bias, float* out, int64_t batch,
                                      int64_t channels, int64_t size) {
  const double count = static_cast<double>(batch * size);
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0, square = 0;
    for (int64_t b = 0; b < batch; b++) {
      for (int64_t i = 0; i < size; i++) {
        sum += x[(b * channels + c) * size + i];
      }
    }
    const double mean = sum / count;
    for (int64_t b = 0; b < batch; b++) {
      for (int64_t i = 0; i < size; i++) {
        const double off = x[(b * channels + c) * size + i] - mean;
        square += off * off;
      }
    }
    const double scale = weight[c] / std::sqrt(square / count + 1e-5);
    for (int64_t b = 0; b < batch; b++) {
      for (int64_t i = 0; i < size; i++) {
        const int64_t at = (b * channels + c) * size + i;
        out[at] = static_cast<float>((x[at] - mean) * scale) + bias[c];
      }
    }
  }
  return 0;
}
KHOST_EXPORT(statistics_in_training)
