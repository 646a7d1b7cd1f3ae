// Numbers of the optimizer, free of LibTorch headers.
#pragma once

namespace khost::trainer {

struct OptimizerOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // decoupled, on matrices only
  double spike_factor = 0;  // skip a norm above this many times its running mean; 0: never
};

struct StepOptions {
  double lr = 0;
  double max_norm = 0;  // 0: do not clip
};

}  // namespace khost::trainer
