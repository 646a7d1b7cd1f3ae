#include "sandbox/judge/statistics.h"

#include <algorithm>
#include <cmath>

namespace khost::judge {
namespace {

// Two-sided Student quantiles at 0.2 % (1 % over five looks), for 1 to 4 degrees of freedom.
constexpr double kQuantiles[] = {318.309, 22.327, 10.215, 7.173};

}  // namespace

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  const double high = values[middle];
  if (values.size() % 2 == 1) {
    return high;
  }
  return (high + *std::max_element(values.begin(), values.begin() + middle)) / 2;
}

double log_threshold() { return -std::log1p(-kFasterThan); }

Decision decide(const std::vector<double>& log_ratios, double slack) {
  const std::size_t n = log_ratios.size();
  if (n == 0) {
    return Decision::undecided;
  }
  double mean = 0;
  for (const double x : log_ratios) {
    mean += x / static_cast<double>(n);
  }
  double half_width = kClear;
  if (n > 1) {
    double squares = 0;
    for (const double x : log_ratios) {
      squares += (x - mean) * (x - mean);
    }
    const double error = std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
    // Few brackets that happen to agree say little about their spread: never narrower than 1 %.
    half_width = std::min(kClear, std::max(0.01, kQuantiles[std::min<std::size_t>(n, 5) - 2] * error));
  }
  const double distance = mean - log_threshold();
  if (distance > half_width + slack) {
    return Decision::faster;
  }
  return distance < -half_width - slack ? Decision::not_faster : Decision::undecided;
}

}  // namespace khost::judge
