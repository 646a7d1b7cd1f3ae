#include "trainer/learn/gae.h"

#include <algorithm>
#include <cmath>

namespace khost::trainer {

void gae(std::span<const uint8_t> mask, std::span<const float> rewards, std::span<const float> values, double gamma,
         double lambda, std::span<float> advantages, std::span<float> returns) {
  double next_value = 0;
  double carry = 0;
  for (size_t t = mask.size(); t-- > 0;) {
    if (mask[t] == 0) {
      advantages[t] = returns[t] = 0;
      continue;
    }
    const double value = values[t];
    carry = rewards[t] + gamma * next_value - value + gamma * lambda * carry;
    next_value = value;
    advantages[t] = static_cast<float>(carry);
    returns[t] = static_cast<float>(carry + value);
  }
}

double adaptive_lambda(double alpha, int64_t actions) {
  return std::clamp(1 - 1 / std::max(alpha * static_cast<double>(actions), 1.0), 0.0, 1.0);
}

Moments whiten(std::span<const uint8_t> mask, std::span<float> advantages, Whitening whitening) {
  double sum = 0;
  int64_t count = 0;
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] != 0) {
      sum += advantages[t];
      ++count;
    }
  }
  if (count == 0) {
    return {};
  }
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] != 0) {
      squares += (advantages[t] - mean) * (advantages[t] - mean);
    }
  }
  const double variance = count > 1 ? squares / static_cast<double>(count - 1) : 0;
  if (whitening != Whitening::none) {
    const double scale = whitening == Whitening::full ? 1 / std::sqrt(variance + 1e-8) : 1;
    for (size_t t = 0; t < mask.size(); ++t) {
      if (mask[t] != 0) {
        advantages[t] = static_cast<float>((advantages[t] - mean) * scale);
      }
    }
  }
  return {mean, std::sqrt(variance)};
}

}  // namespace khost::trainer
