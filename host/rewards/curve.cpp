#include "host/rewards/curve.h"

#include <cmath>
#include <numbers>

namespace khost {

Result<Curve> Curve::between(double from, double to, int64_t steps, Shape shape) {
  if (!std::isfinite(from) || !std::isfinite(to)) {
    return Failure{"a curve needs finite numbers", "bad_input"};
  }
  if (steps < 1) {
    return Failure{"a curve needs at least 1 step, got " + std::to_string(steps), "bad_input"};
  }
  return Curve({{0, from}, {steps, to}}, shape);
}

Result<Curve> Curve::linear(double from, double to, int64_t steps) {
  return between(from, to, steps, Shape::linear);
}

Result<Curve> Curve::cosine(double from, double to, int64_t steps) {
  return between(from, to, steps, Shape::cosine);
}

Result<Curve> Curve::steps(std::map<int64_t, double> values) {
  if (values.empty()) {
    return Failure{"a curve of steps needs at least one step", "bad_input"};
  }
  for (const auto& [step, value] : values) {
    if (!std::isfinite(value)) {
      return Failure{"the value at step " + std::to_string(step) + " is not finite", "bad_input"};
    }
  }
  return Curve(std::move(values));
}

double Curve::at(int64_t step) const {
  auto behind = points_.upper_bound(step);
  if (behind == points_.begin()) {
    return behind->second;
  }
  auto reached = std::prev(behind);
  if (shape_ == Shape::steps || behind == points_.end()) {
    return reached->second;
  }
  double part = static_cast<double>(step - reached->first) / static_cast<double>(behind->first - reached->first);
  if (shape_ == Shape::cosine) {
    part = (1 - std::cos(std::numbers::pi * part)) / 2;
  }
  return reached->second + part * (behind->second - reached->second);
}

}  // namespace khost
