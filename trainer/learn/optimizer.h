// AdamW over the flat fp32 weights, with gradient clipping and a guard that skips a step whose gradient is not finite
// or far above its recent norms: one bad batch must not cost a run. Where several ranks train, each keeps and applies
// one slice of the moments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/learn/batch.h"
#include "trainer/learn/options.h"
#include "trainer/learn/ranks.h"
#include "trainer/model/weights.h"

namespace khost::trainer {

class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, std::shared_ptr<Ranks> ranks);

  enum class Outcome { stepped, skipped };
  // Uses up the gradient, which is the same on all ranks. Sets norm (before clipping), lr, skipped, skipped_total
  // and of that skipped_nonfinite and skipped_spike in `metrics`.
  Result<Outcome> step(Weights& weights, const StepOptions& options, Metrics& metrics);

  struct State {
    int64_t steps = 0, nonfinite = 0, spikes = 0;
    double norm_mean = 0;
  };
  const State& state() const { return state_; }
  // All ranks take part; only rank 0 writes. `weights` are those that the optimizer steps.
  Status save(const Weights& weights, const std::string& path);
  Status load(const Weights& weights, const std::string& path, const State& state);
  // As it was before the first step.
  void reset();

 private:
  void open_moments(const Weights& weights);
  void apply(Weights& weights, double lr, double scale);
  Status share(at::Tensor& whole);

  OptimizerOptions options_;
  State state_;
  std::shared_ptr<Ranks> ranks_;  // null: alone
  Slice slice_;
  at::Tensor first_, second_;  // moments of this rank's slice; undefined before they are needed
  at::Tensor decay_;
};

}  // namespace khost::trainer
