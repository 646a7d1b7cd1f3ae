// Numbers of the optimizer, free of LibTorch headers.
#pragma once

#include <cstdint>

namespace khost::trainer {

struct OptimizerOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // decoupled, on matrices only
  double spike_factor = 0;  // skip a norm above this many times its running mean; 0: never
};

// How the rate moves after the warm-up: it stays, or falls to `floor` times itself at step `steps`.
enum class RateRule { constant, linear, cosine };

struct StepOptions {
  double lr = 0;
  double max_norm = 0;  // 0: do not clip
  int64_t warmup = 0;   // steps over which the rate rises to lr
  RateRule rule = RateRule::constant;
  int64_t steps = 0;  // of the whole schedule; needed by linear and cosine
  double floor = 0;   // share of lr that is left in the end
};

// The rate of the step that follows `done` taken ones.
double learning_rate(const StepOptions& options, int64_t done);

}  // namespace khost::trainer
