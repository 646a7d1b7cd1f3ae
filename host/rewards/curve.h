// A number that follows the training step: a weight, a limit. A value type without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "host/base/result.h"

namespace khost {

class Curve {
 public:
  static Curve constant(double value) { return Curve({{0, value}}); }
  // From `from` at step 0 to `to` at step `steps`, constant behind it.
  static Result<Curve> linear(double from, double to, int64_t steps);
  // The same ends, along half a cosine: flat at both.
  static Result<Curve> cosine(double from, double to, int64_t steps);
  // Piecewise constant; before the first step its value holds too.
  static Result<Curve> steps(std::map<int64_t, double> values);

  double at(int64_t step) const;

 private:
  enum class Shape { steps, linear, cosine };
  explicit Curve(std::map<int64_t, double> points, Shape shape = Shape::steps)
      : points_(std::move(points)), shape_(shape) {}
  static Result<Curve> between(double from, double to, int64_t steps, Shape shape);

  std::map<int64_t, double> points_;  // never empty; two for linear and cosine
  Shape shape_;
};

}  // namespace khost
