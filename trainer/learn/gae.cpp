#include "trainer/learn/gae.h"

#include <algorithm>
#include <cmath>

namespace khost::trainer {

void gae(std::span<const uint8_t> mask, std::span<const float> rewards, std::span<const float> values,
         const Decay& decay, std::span<float> advantages, std::span<float> returns) {
  double next_value = 0;
  double carry = 0;
  double lambda = decay.lambda;
  for (size_t t = mask.size(); t-- > 0;) {
    if (mask[t] == 0) {
      advantages[t] = returns[t] = 0;
      lambda = decay.lambda * decay.turn;
      continue;
    }
    const double value = values[t];
    carry = rewards[t] + decay.gamma * next_value - value + decay.gamma * lambda * carry;
    next_value = value;
    lambda = decay.lambda;
    advantages[t] = static_cast<float>(carry);
    returns[t] = static_cast<float>(carry + value);
  }
}

double adaptive_lambda(double alpha, int64_t actions) {
  return std::clamp(1 - 1 / std::max(alpha * static_cast<double>(actions), 1.0), 0.0, 1.0);
}

Moments whiten(std::span<const uint8_t> mask, std::span<float> advantages, Whitening whitening,
               const SumOverRanks& sum_over_ranks, double floor) {
  const auto everywhere = [&](std::vector<double>& numbers) {
    if (sum_over_ranks) {
      sum_over_ranks(numbers);
    }
  };
  std::vector<double> first = {0, 0};  // sum, count
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] != 0) {
      first[0] += advantages[t];
      first[1] += 1;
    }
  }
  everywhere(first);
  const double count = first[1];
  const double mean = count > 0 ? first[0] / count : 0;
  std::vector<double> squares = {0};
  for (size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] != 0) {
      squares[0] += (advantages[t] - mean) * (advantages[t] - mean);
    }
  }
  everywhere(squares);
  const double variance = count > 1 ? squares[0] / (count - 1) : 0;
  if (whitening != Whitening::none) {
    const double scale = whitening == Whitening::full ? 1 / std::max(floor, std::sqrt(variance + 1e-8)) : 1;
    for (size_t t = 0; t < mask.size(); ++t) {
      if (mask[t] != 0) {
        advantages[t] = static_cast<float>((advantages[t] - mean) * scale);
      }
    }
  }
  return {mean, std::sqrt(variance)};
}

}  // namespace khost::trainer
