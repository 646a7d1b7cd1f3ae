// Fills a batch's advantages, returns and Monte-Carlo returns, and says how rewards and values stand.
#pragma once

#include <optional>

#include "trainer/learn/batch.h"
#include "trainer/learn/gae.h"

namespace khost::trainer {

enum class AdvantageSource {
  gae,    // needs the values column
  group,  // reward against its group: no critic
};

// What a group's reward is measured against, and whether the distance is divided by the group's standard deviation.
enum class GroupCenter { mean, leave_one_out };
enum class GroupScale { none, std };

struct AdvantageOptions {
  AdvantageSource source = AdvantageSource::gae;
  double gamma = 1;
  double lambda = 0.95;
  std::optional<double> lambda_critic;  // of the value targets; lambda when absent
  double lambda_turn = 1;               // of both, once more where an observation stands between two actions
  double adaptive_alpha = 0;            // > 0: the actor's lambda follows the length (VAPO uses 0.05)
  Whitening whiten = Whitening::full;
  double whiten_floor = 0;                 // the least deviation that whitening divides by, in units of the reward
  GroupCenter center = GroupCenter::mean;  // group
  GroupScale scale = GroupScale::none;     // group; the unbiased deviation + 1e-6, as in GRPO
};

// Where several ranks train on batches of their own, whitening is over all of them; the metrics are of this rank's
// batch.
Result<Metrics> fill_advantages(Batch& batch, const AdvantageOptions& options);

// 1 - var(R - V) / (var(R) + 1e-5) over action tokens.
double explained_variance(const Batch& batch, Column returns);

// reward, length and, where the columns are there, value metrics of a batch.
Metrics batch_metrics(const Batch& batch);

}  // namespace khost::trainer
