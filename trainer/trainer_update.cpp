// Trainer: one optimizer step.
#include <chrono>

#include "trainer/learn/metrics.h"
#include "trainer/learn/optimizer.h"
#include "trainer/learn/pass.h"
#include "trainer/learn/ranks.h"
#include "trainer/model/functions.h"
#include "trainer/model/transformer.h"
#include "trainer/network.h"
#include "trainer/shared_lease.h"
#include "trainer/trainer.h"

namespace khost::trainer {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Failure bad(const std::string& message) {
  return Failure{message, "bad_input"};
}

double weighted_sum(const std::vector<float>& values, const std::vector<float>& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * weights[i];
  }
  return sum;
}

Status check_columns(const Batch& batch, const Objective& objective) {
  const auto need = [&](Column column) {
    return batch.has(column) ? ok() : Status(bad(std::string("update: the batch has no ") + column_name(column)));
  };
  if (objective.kind == ObjectiveKind::ppo) {
    for (const Column column : {Column::old_logp, Column::advantages}) {
      if (const Status there = need(column); !there) {
        return there;
      }
    }
    if (objective.kl > 0 && !batch.has(Column::ref_logp)) {
      return need(Column::ref_logp);
    }
    if (objective.importance_cap > 0 && !batch.has(Column::sampler_logp)) {
      return need(Column::sampler_logp);
    }
  }
  if (objective.kind == ObjectiveKind::value) {
    if (objective.value_clip > 0 && !batch.has(Column::values)) {
      return need(Column::values);
    }
    return need(Column::returns);
  }
  return ok();
}

}  // namespace

// What the passes of one update leave behind: one entry an action, in trajectory order.
struct Trainer::Collected {
  std::vector<float> loss, logp, entropy, values;

  // Of ranks that passed over parts of one batch: the whole, on each of them.
  Status sum(Ranks& ranks) {
    for (std::vector<float>* column : {&loss, &logp, &entropy, &values}) {
      if (const Status summed = sum_parts(ranks, *column); !summed) {
        return summed;
      }
    }
    return ok();
  }
};

Result<Metrics> Trainer::update(const Batch& batch, const Objective& objective, const StepOptions& options) {
  const std::lock_guard lock(mutex_);
  const double started = now_s();
  if (const Status checked = check_update(batch, objective); !checked) {
    return checked.failure();
  }
  const Result<Denominators> all = share_denominators(batch);
  if (!all) {
    return all.failure();
  }
  Result<SharedLease> lease = SharedLease::open(spec_.lease_path);
  if (!lease) {
    return lease.failure();
  }
  const std::vector<float> weights = token_weights(batch, objective.aggregate, objective.horizon, *all);
  const auto actions = static_cast<size_t>(batch.actions());
  Collected collected;
  for (std::vector<float>* column : {&collected.loss, &collected.logp, &collected.entropy, &collected.values}) {
    column->resize(actions);
  }
  enable_gradients(network_->weights);
  network_->weights.grad.zero_();
  const bool shared = ranks_ && ranks_->whole();
  const std::vector<std::vector<int64_t>> parts = batch.micro_batches();
  for (const std::vector<int64_t>& part : shared ? share_of(parts, ranks_->rank(), ranks_->size()) : parts) {
    lease->hold([&] { accumulate(batch, part, objective, weights, collected); });
  }
  if (ranks_) {
    if (const Status summed = ranks_->sum(network_->weights.grad); !summed) {
      return summed.failure();
    }
  }
  if (shared) {
    if (const Status summed = collected.sum(*ranks_); !summed) {
      return summed.failure();
    }
  }
  std::vector<double> loss = {weighted_sum(collected.loss, weights)};
  if (ranks_ && !shared) {
    if (const Status summed = ranks_->sum(loss); !summed) {
      return summed.failure();
    }
  }
  Metrics metrics;
  if (role_ == Role::actor) {
    const std::vector<float> old_logp = batch.action_column(Column::old_logp);
    const std::vector<float> sampler_logp = batch.action_column(Column::sampler_logp);
    const std::vector<float> advantages = batch.action_column(Column::advantages);
    metrics = policy_metrics({collected.logp, old_logp, sampler_logp, advantages, collected.entropy}, objective);
  }
  Status stepped = ok();
  network_->gate.write([&] {
    const Result<Optimizer::Outcome> outcome = optimizer_->step(network_->weights, options, metrics);
    if (!outcome) {
      stepped = outcome.failure();
    } else if (*outcome == Optimizer::Outcome::stepped) {
      ++network_->version;
    }
  });
  if (!stepped) {
    return stepped.failure();
  }
  metrics["loss"] = loss[0];
  metrics["micro_batches"] = static_cast<double>(parts.size());
  metrics["step"] = static_cast<double>(optimizer_->state().steps);
  metrics["version"] = static_cast<double>(network_->version);
  metrics["tokens"] = static_cast<double>(batch.tokens());
  metrics["action_tokens"] = static_cast<double>(batch.actions());
  metrics["seconds"] = now_s() - started;
  metrics["tokens_per_s"] = static_cast<double>(batch.tokens()) / metrics["seconds"];
  return metrics;
}

Status Trainer::check_update(const Batch& batch, const Objective& objective) const {
  if ((objective.kind == ObjectiveKind::value) != (role_ == Role::critic)) {
    return bad(role_ == Role::critic ? "update: a critic learns the value objective only"
                                     : "update: the value objective needs a critic");
  }
  if (const Status checked = check_tokens(batch); !checked) {
    return checked;
  }
  return check_columns(batch, objective);
}

// A rank without actions still takes part in a step of the others.
Result<Denominators> Trainer::share_denominators(const Batch& batch) {
  const Denominators own = count_denominators(batch);
  std::vector<double> all = {own.sequences, own.actions, own.groups};
  if (ranks_ && !ranks_->whole()) {
    if (const Status summed = ranks_->sum(all); !summed) {
      return summed.failure();
    }
  }
  if (all[1] == 0) {
    return bad("update: no trajectory of the batch has an action");
  }
  return Denominators{all[0], all[1], all[2]};
}

void Trainer::accumulate(const Batch& batch, const std::vector<int64_t>& trajectories, const Objective& objective,
                         const std::vector<float>& weights, Collected& collected) {
  const Weights& w = network_->weights;
  const Pass pass = make_pass(batch, trajectories, w);
  const at::Device device = w.embedding.device();
  const auto column = [&](Column name) { return gather(batch.column(name), pass.places, device); };
  const at::Tensor hidden_NC =
      hidden_states(w, pass.sequences, spec_.recompute ? Keep::inputs : Keep::all).index_select(0, pass.rows_N);
  at::Tensor values_N;
  TokenScores scores;
  at::Tensor loss_N;
  if (objective.kind == ObjectiveKind::value) {
    values_N = values(w, hidden_NC);
    const at::Tensor old_N = objective.value_clip > 0 ? column(Column::values) : at::Tensor();
    loss_N = value_loss(values_N, old_N, column(Column::returns), objective.value_clip);
  } else {
    scores = score_tokens(hidden_NC, w.vocabulary_weight(), pass.targets_N, batch.temperature());
    if (objective.kind == ObjectiveKind::rft) {
      loss_N = -scores.logp_N;
    } else {
      const at::Tensor old_N = column(Column::old_logp);
      loss_N = ppo_loss(scores.logp_N, old_N, column(Column::advantages), objective);
      if (objective.importance_cap > 0) {
        loss_N = loss_N * at::clamp(at::exp(old_N - column(Column::sampler_logp)), 0.0, objective.importance_cap);
      }
      if (objective.kl > 0) {
        loss_N = loss_N + objective.kl * kl_k3(scores.logp_N, column(Column::ref_logp));
      }
    }
    if (objective.entropy > 0) {
      loss_N = loss_N - objective.entropy * scores.entropy_N;
    }
  }
  const auto later = [&](const at::Tensor& from_N, std::vector<float>& column_of) {
    return scatter_later(from_N.detach(), pass.ordinals, column_of);
  };
  std::vector<std::function<void()>> reads = {later(loss_N, collected.loss)};
  if (values_N.defined()) {
    reads.push_back(later(values_N, collected.values));
  } else {
    reads.push_back(later(scores.logp_N, collected.logp));
    reads.push_back(later(scores.entropy_N, collected.entropy));
  }
  (loss_N * gather(weights, pass.ordinals, device)).sum().backward();
  collect_gradients(network_->weights);
  for (const std::function<void()>& read : reads) {
    read();
  }
}

}  // namespace khost::trainer
