// How far an update's policy stands from the old one and from the sampler: plain numbers over action tokens.
#pragma once

#include <span>

#include "trainer/learn/batch.h"
#include "trainer/learn/objective.h"

namespace khost::trainer {

struct PolicyColumns {
  std::span<const float> logp, old_logp, sampler_logp, advantages, entropy;  // sampler_logp may be empty
};

// entropy, approx_kl (k1), kl_k3, clip_frac with _low and _high, dual_clip_frac (at c = 3 when the clip is off),
// ratio_* with p1 and p99 and by the probability of the token, ess, and sampler_gap_* where the sampler's numbers are
// there.
Metrics policy_metrics(const PolicyColumns& columns, const Objective& objective);

}  // namespace khost::trainer
