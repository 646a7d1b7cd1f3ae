#include "trainer/learn/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ops/linalg_vector_norm.h>

#include "trainer/accelerator.h"
#include "trainer/model/safetensors.h"

namespace khost::trainer {
namespace {

constexpr double kNormMemory = 0.9;  // of the running mean that spikes are measured against
constexpr int64_t kWarmSteps = 10;   // steps before the guard against spikes is armed

// Sums in fp64: in LibTorch's own reduction on a device, where a copy of such width would be slow.
double gradient_norm(const at::Tensor& grad) {
  if (grad.is_cuda()) {
    return at::linalg_vector_norm(grad, 2, std::nullopt, false, at::kDouble).item<double>();
  }
  return std::sqrt(grad.to(at::kDouble).square().sum().item<double>());
}

}  // namespace

double learning_rate(const StepOptions& o, int64_t done) {
  if (done < o.warmup) {
    return o.lr * static_cast<double>(done + 1) / static_cast<double>(o.warmup);
  }
  if (o.rule == RateRule::constant || o.steps <= o.warmup) {
    return o.lr;
  }
  const double way = std::min(1.0, static_cast<double>(done - o.warmup) / static_cast<double>(o.steps - o.warmup));
  const double left = o.rule == RateRule::linear ? 1 - way : 0.5 * (1 + std::cos(std::numbers::pi * way));
  return o.lr * (o.floor + (1 - o.floor) * left);
}

Optimizer::Optimizer(const OptimizerOptions& options, std::shared_ptr<Ranks> ranks)
    : options_(options), ranks_(std::move(ranks)) {}

void Optimizer::open_moments(const Weights& weights) {
  if (first_.defined()) {
    return;
  }
  slice_ = ranks_ ? slice_of(weights.flat.numel(), ranks_->rank(), ranks_->size()) : Slice{0, weights.flat.numel()};
  first_ = at::zeros({slice_.length}, weights.flat.options());
  second_ = at::zeros_like(first_);
  if (options_.weight_decay > 0) {
    decay_ = decay_mask(weights).narrow(0, slice_.begin, slice_.length);
  }
}

Result<Optimizer::Outcome> Optimizer::step(Weights& weights, const StepOptions& options, Metrics& metrics) {
  const at::NoGradGuard no_grad;
  open_moments(weights);
  const double norm = gradient_norm(weights.grad);
  const bool finite = std::isfinite(norm);
  const bool spike = finite && options_.spike_factor > 0 && state_.steps >= kWarmSteps &&
                     norm > options_.spike_factor * state_.norm_mean;
  const bool skip = !finite || spike;
  const double lr = learning_rate(options, state_.steps);
  state_.nonfinite += !finite;
  state_.spikes += spike;
  if (!skip) {
    const double scale = options.max_norm > 0 && norm > options.max_norm ? options.max_norm / (norm + 1e-6) : 1;
    ++state_.steps;
    state_.norm_mean = state_.steps == 1 ? norm : kNormMemory * state_.norm_mean + (1 - kNormMemory) * norm;
    apply(weights, lr, scale);
    if (ranks_) {
      if (const Status shared = share(weights.flat); !shared) {
        return shared.failure();
      }
    }
    if (!weights.on_device() || ranks_) {
      round_weights(weights);
    }
  }
  if (!weights.on_device()) {
    weights.grad.zero_();
  } else {
    accelerator().finish();  // before other threads read the weights on streams of their own
  }
  metrics["norm"] = norm;
  metrics["lr"] = lr;
  metrics["skipped"] = skip ? 1 : 0;
  metrics["skipped_total"] = static_cast<double>(state_.nonfinite + state_.spikes);
  metrics["skipped_nonfinite"] = static_cast<double>(state_.nonfinite);
  metrics["skipped_spike"] = static_cast<double>(state_.spikes);
  return skip ? Outcome::skipped : Outcome::stepped;
}

void Optimizer::apply(Weights& weights, double lr, double scale) {
  at::Tensor flat = weights.flat.narrow(0, slice_.begin, slice_.length);
  at::Tensor grad = weights.grad.narrow(0, slice_.begin, slice_.length);
  if (weights.on_device()) {
    const double step = static_cast<double>(state_.steps);
    const AdamNumbers numbers{static_cast<float>(scale),
                              static_cast<float>(options_.beta1),
                              static_cast<float>(options_.beta2),
                              static_cast<float>(options_.epsilon),
                              static_cast<float>(lr),
                              static_cast<float>(lr * options_.weight_decay),
                              static_cast<float>(1 - std::pow(options_.beta1, step)),
                              static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, step)))};
    const bool rounds = weights.compute == ComputeType::bf16 && !ranks_;  // ranks round after they shared
    accelerator().adamw(flat, grad, first_, second_, decay_, rounds ? weights.half : at::Tensor(), numbers);
    return;
  }
  if (scale != 1) {
    grad.mul_(scale);
  }
  if (options_.weight_decay > 0) {
    flat.addcmul_(flat, decay_, -lr * options_.weight_decay);
  }
  const auto t = static_cast<double>(state_.steps);
  first_.mul_(options_.beta1).add_(grad, 1 - options_.beta1);
  second_.mul_(options_.beta2).addcmul_(grad, grad, 1 - options_.beta2);
  const double bias1 = 1 - std::pow(options_.beta1, t);
  const double bias2 = std::sqrt(1 - std::pow(options_.beta2, t));
  flat.addcdiv_(first_, second_.sqrt().div_(bias2).add_(options_.epsilon), -lr / bias1);
}

// Of `whole` every rank holds its slice; then all hold all.
Status Optimizer::share(at::Tensor& whole) {
  for (int root = 0; root < ranks_->size(); ++root) {
    const Slice part = slice_of(whole.numel(), root, ranks_->size());
    at::Tensor place = whole.narrow(0, part.begin, part.length);
    if (const Status sent = ranks_->broadcast(place, root); !sent) {
      return sent;
    }
  }
  return ok();
}

Status Optimizer::save(const Weights& weights, const std::string& path) {
  open_moments(weights);
  const std::vector<int64_t> shape = {weights.flat.numel()};
  at::Tensor first = first_.cpu();
  at::Tensor second = second_.cpu();
  if (ranks_) {
    for (const auto& [slice, whole] : {std::pair{&first_, &first}, std::pair{&second_, &second}}) {
      *whole = at::empty(shape, first_.options());
      whole->narrow(0, slice_.begin, slice_.length).copy_(*slice);
      if (const Status shared = share(*whole); !shared) {
        return shared;
      }
      *whole = whole->cpu();
    }
    if (ranks_->rank() != 0) {
      return ok();
    }
  }
  return write_safetensors(path,
                           {{"first_moment", shape, first.const_data_ptr<float>()},
                            {"second_moment", shape, second.const_data_ptr<float>()}},
                           {});
}

Status Optimizer::load(const Weights& weights, const std::string& path, const State& state) {
  open_moments(weights);
  const Result<SafeTensors> file = SafeTensors::open(path);
  if (!file) {
    return file.failure();
  }
  for (const auto& [name, tensor] : {std::pair{"first_moment", &first_}, std::pair{"second_moment", &second_}}) {
    const Result<std::vector<float>> values = file.value().read_floats(name, {weights.flat.numel()});
    if (!values) {
      return Failure{path + ": " + values.failure().message, values.failure().code};
    }
    at::Tensor host = at::empty({slice_.length}, at::kFloat);
    std::copy_n(values.value().begin() + slice_.begin, slice_.length, host.data_ptr<float>());
    tensor->copy_(host);
  }
  state_ = state;
  return ok();
}

void Optimizer::reset() {
  state_ = {};
  if (first_.defined()) {
    first_.zero_();
    second_.zero_();
  }
}

}  // namespace khost::trainer
