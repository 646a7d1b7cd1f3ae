#include "trainer/learn/optimizer.h"

#include <algorithm>
#include <cmath>

#include "trainer/model/safetensors.h"

namespace khost::trainer {
namespace {

constexpr double kNormMemory = 0.9;  // of the running mean that spikes are measured against
constexpr int64_t kWarmSteps = 10;   // steps before the guard against spikes is armed

}  // namespace

Optimizer::Optimizer(const Weights& weights, const OptimizerOptions& options)
    : options_(options), first_(at::zeros_like(weights.flat)), second_(at::zeros_like(weights.flat)) {}

Optimizer::Outcome Optimizer::step(Weights& weights, const StepOptions& options, Metrics& metrics) {
  const at::NoGradGuard no_grad;
  const double norm = std::sqrt(weights.grad.to(at::kDouble).square().sum().item<double>());
  const bool spike = options_.spike_factor > 0 && state_.steps >= kWarmSteps &&
                     norm > options_.spike_factor * state_.norm_mean;
  const bool skip = !std::isfinite(norm) || spike;
  metrics["norm"] = norm;
  metrics["lr"] = options.lr;
  if (skip) {
    ++state_.skipped;
  } else {
    if (options.max_norm > 0 && norm > options.max_norm) {
      weights.grad.mul_(options.max_norm / (norm + 1e-6));
    }
    ++state_.steps;
    state_.norm_mean = state_.steps == 1 ? norm : kNormMemory * state_.norm_mean + (1 - kNormMemory) * norm;
    if (options_.weight_decay > 0) {
      weights.flat.addcmul_(weights.flat, weights.decay, -options.lr * options_.weight_decay);
    }
    const auto t = static_cast<double>(state_.steps);
    first_.mul_(options_.beta1).add_(weights.grad, 1 - options_.beta1);
    second_.mul_(options_.beta2).addcmul_(weights.grad, weights.grad, 1 - options_.beta2);
    const double bias1 = 1 - std::pow(options_.beta1, t);
    const double bias2 = std::sqrt(1 - std::pow(options_.beta2, t));
    weights.flat.addcdiv_(first_, second_.sqrt().div_(bias2).add_(options_.epsilon), -options.lr / bias1);
  }
  weights.grad.zero_();
  metrics["skipped"] = skip ? 1 : 0;
  metrics["skipped_total"] = static_cast<double>(state_.skipped);
  return skip ? Outcome::skipped : Outcome::stepped;
}

Status Optimizer::save(const std::string& path) const {
  const std::vector<int64_t> shape = {first_.numel()};
  return write_safetensors(path,
                           {{"first_moment", shape, first_.const_data_ptr<float>()},
                            {"second_moment", shape, second_.const_data_ptr<float>()}},
                           {});
}

Status Optimizer::load(const std::string& path, const State& state) {
  const Result<SafeTensors> file = SafeTensors::open(path);
  if (!file) {
    return file.failure();
  }
  for (const auto& [name, tensor] : {std::pair{"first_moment", &first_}, std::pair{"second_moment", &second_}}) {
    Result<std::vector<float>> values = file.value().read_floats(name, {tensor->numel()});
    if (!values) {
      return Failure{path + ": " + values.failure().message, values.failure().code};
    }
    std::copy(values->begin(), values->end(), tensor->data_ptr<float>());
  }
  state_ = state;
  return ok();
}

}  // namespace khost::trainer
