#include "host/rewards/advantages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace khost {

std::vector<double> group_advantages(const std::vector<double>& scores, const AdvantageOptions& options) {
  using Center = AdvantageOptions::Center;
  const double n = static_cast<double>(scores.size());
  std::vector<double> out = scores;
  if (scores.empty()) {
    return out;
  }
  auto [least, most] = std::minmax_element(scores.begin(), scores.end());
  const bool flat = *least == *most;
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
  double squares = 0;
  for (double score : scores) {
    squares += (score - mean) * (score - mean);
  }
  if (options.center != Center::none) {
    if (flat) {
      return std::vector<double>(scores.size(), 0.0);
    }
    const double factor = options.center == Center::leave_one_out ? n / (n - 1) : 1;
    for (double& value : out) {
      value = (value - mean) * factor;
    }
  }
  if (options.scale == AdvantageOptions::Scale::deviation && !flat) {
    const double deviation = std::sqrt(squares / (n - 1));
    for (double& value : out) {
      value /= deviation + 1e-6;
    }
  }
  return out;
}

}  // namespace khost
