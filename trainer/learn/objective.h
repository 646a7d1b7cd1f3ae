// What an update minimises. Losses are free functions of tensors over action tokens (N of them), already without
// observations and padding; weights that hold the aggregation and its global denominators are applied outside.
#pragma once

#include <string>
#include <vector>

#include "trainer/learn/batch.h"

namespace at {
class Tensor;
}

namespace khost::trainer {

enum class ObjectiveKind { rft, value, ppo };

// Names as in the field. S: trajectories with at least one action, n: actions of a trajectory, all of the whole batch.
enum class Aggregate {
  seq_mean_token_mean,      // 1 / (S n)       the paper's Eq. 4 and Eq. 5
  token_mean,               // 1 / sum of n    DAPO
  seq_mean_token_sum,       // 1 / S           the paper's Eq. 2
  seq_mean_token_sum_norm,  // 1 / (S horizon) Dr. GRPO
  token_sum,                // 1
  prompt_mean,              // mean over groups of the mean over their trajectories of the token mean
};
Result<Aggregate> parse_aggregate(const std::string& name);

struct Objective {
  ObjectiveKind kind = ObjectiveKind::ppo;
  Aggregate aggregate = Aggregate::seq_mean_token_mean;
  double horizon = 1;         // of seq_mean_token_sum_norm
  double clip_low = 0.2;      // ppo
  double clip_high = 0.28;    // ppo
  double dual_clip = 0;       // ppo: c, 0 is off
  double kl = 0;              // ppo: weight of k3 against ref_logp
  double entropy = 0;         // ppo, rft: weight of the entropy bonus
  double importance_cap = 0;  // ppo: weight tokens by min(old / sampler, cap), 0 is off
  double value_clip = 0;      // value: c around the old value, 0 is off
};

// What the aggregations divide by: counts over the whole batch of an optimizer step, that of all ranks.
struct Denominators {
  double sequences = 0, actions = 0, groups = 0;  // with at least one action; no group stands on two ranks
};
Denominators count_denominators(const Batch& batch);

// The weight of every action token of this rank's batch, in trajectory order.
std::vector<float> token_weights(const Batch& batch, Aggregate aggregate, double horizon, const Denominators& all);
inline std::vector<float> token_weights(const Batch& batch, Aggregate aggregate, double horizon) {
  return token_weights(batch, aggregate, horizon, count_denominators(batch));
}

// d = clamp(new - old, -20, 20), rho = e^d:  max(-A rho, -A clamp(rho, 1 - low, 1 + high)); with dual clip c, where
// A < 0, at most -A c (PPO; clip-higher from DAPO, arXiv 2503.14476; dual clip arXiv 1912.09729).
at::Tensor ppo_loss(const at::Tensor& logp_N, const at::Tensor& old_logp_N, const at::Tensor& advantages_N,
                    const Objective& objective);

// (V - R)^2 / 2, or with clip c the worse of that and of V kept within c of the old value.
at::Tensor value_loss(const at::Tensor& values_N, const at::Tensor& old_values_N, const at::Tensor& returns_N,
                      double clip);

// Schulman's k3 = e^(ref - new) - (ref - new) - 1, never negative; exponent within 20, result within 10.
at::Tensor kl_k3(const at::Tensor& logp_N, const at::Tensor& ref_logp_N);

}  // namespace khost::trainer
