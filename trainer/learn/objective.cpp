#include "trainer/learn/objective.h"

#include <map>

#include "trainer/torch.h"

namespace khost::trainer {

Result<Aggregate> parse_aggregate(const std::string& name) {
  static const std::map<std::string, Aggregate> names = {
      {"seq-mean-token-mean", Aggregate::seq_mean_token_mean},
      {"token-mean", Aggregate::token_mean},
      {"seq-mean-token-sum", Aggregate::seq_mean_token_sum},
      {"seq-mean-token-sum-norm", Aggregate::seq_mean_token_sum_norm},
      {"token-sum", Aggregate::token_sum},
      {"prompt-mean", Aggregate::prompt_mean}};
  if (const auto found = names.find(name); found != names.end()) {
    return found->second;
  }
  std::string all;
  for (const auto& [known, value] : names) {
    all += (all.empty() ? "" : ", ") + known;
  }
  return Failure{"unknown aggregate '" + name + "', expected one of " + all, "bad_input"};
}

namespace {

std::map<int64_t, double> group_sizes_of(const Batch& batch) {
  std::map<int64_t, double> sizes;
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    if (batch.actions(i) > 0) {
      sizes[batch.group(i)] += 1;
    }
  }
  return sizes;
}

}  // namespace

Denominators count_denominators(const Batch& batch) {
  return {static_cast<double>(batch.nonempty()), static_cast<double>(batch.actions()),
          static_cast<double>(group_sizes_of(batch).size())};
}

std::vector<float> token_weights(const Batch& batch, Aggregate aggregate, double horizon, const Denominators& all) {
  const double sequences = all.sequences;
  const double actions = all.actions;
  std::map<int64_t, double> group_sizes = group_sizes_of(batch);
  const auto weight = [&](int64_t i) {
    const auto n = static_cast<double>(batch.actions(i));
    switch (aggregate) {
      case Aggregate::seq_mean_token_mean:
        return 1 / (sequences * n);
      case Aggregate::token_mean:
        return 1 / actions;
      case Aggregate::seq_mean_token_sum:
        return 1 / sequences;
      case Aggregate::seq_mean_token_sum_norm:
        return 1 / (sequences * horizon);
      case Aggregate::token_sum:
        return 1.0;
      case Aggregate::prompt_mean:
        return 1 / (all.groups * group_sizes[batch.group(i)] * n);
    }
    return 0.0;
  };
  std::vector<float> weights;
  weights.reserve(static_cast<size_t>(batch.actions()));
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    if (batch.actions(i) > 0) {
      weights.insert(weights.end(), static_cast<size_t>(batch.actions(i)), static_cast<float>(weight(i)));
    }
  }
  return weights;
}

at::Tensor ppo_loss(const at::Tensor& logp_N, const at::Tensor& old_logp_N, const at::Tensor& advantages_N,
                    const Objective& objective) {
  const at::Tensor ratio_N = at::exp(at::clamp(logp_N - old_logp_N, -20.0, 20.0));
  const at::Tensor plain_N = -advantages_N * ratio_N;
  const at::Tensor clipped_N = -advantages_N * at::clamp(ratio_N, 1 - objective.clip_low, 1 + objective.clip_high);
  const at::Tensor loss_N = at::maximum(plain_N, clipped_N);
  if (objective.dual_clip <= 0) {
    return loss_N;
  }
  return at::where(advantages_N < 0, at::minimum(loss_N, -advantages_N * objective.dual_clip), loss_N);
}

at::Tensor value_loss(const at::Tensor& values_N, const at::Tensor& old_values_N, const at::Tensor& returns_N,
                      double clip) {
  const at::Tensor error_N = values_N - returns_N;
  if (clip <= 0) {
    return 0.5 * error_N * error_N;
  }
  const at::Tensor kept_N = old_values_N + at::clamp(values_N - old_values_N, -clip, clip) - returns_N;
  return 0.5 * at::maximum(error_N * error_N, kept_N * kept_N);
}

at::Tensor kl_k3(const at::Tensor& logp_N, const at::Tensor& ref_logp_N) {
  const at::Tensor d_N = at::clamp(ref_logp_N - logp_N, -20.0, 20.0);
  return at::clamp(at::exp(d_N) - d_N - 1, -10.0, 10.0);
}

}  // namespace khost::trainer
