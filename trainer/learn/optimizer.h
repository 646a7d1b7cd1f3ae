// AdamW over the flat fp32 weights, with gradient clipping and a guard that skips a step whose gradient is not finite
// or far above its recent norms: one bad batch must not cost a run.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/learn/batch.h"
#include "trainer/learn/options.h"
#include "trainer/model/weights.h"

namespace khost::trainer {

class Optimizer {
 public:
  Optimizer(const Weights& weights, const OptimizerOptions& options);

  enum class Outcome { stepped, skipped };
  // Uses and clears the gradient. Sets norm (before clipping), lr, skipped and skipped_total in `metrics`.
  Outcome step(Weights& weights, const StepOptions& options, Metrics& metrics);

  struct State {
    int64_t steps = 0, skipped = 0;
    double norm_mean = 0;
  };
  const State& state() const { return state_; }
  Status save(const std::string& path) const;
  Status load(const std::string& path, const State& state);

 private:
  OptimizerOptions options_;
  State state_;
  at::Tensor first_, second_;  // moments
};

}  // namespace khost::trainer
