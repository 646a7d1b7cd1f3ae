// Generalised advantage estimation over action tokens only: observation tokens are stepped over, as if the trajectory
// held nothing but its actions. Elsewhere they decay the credit once each (verl#2337, miles#1827).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace khost::trainer {

// How much of what comes later an action is given. `lambda` holds from one action to the next, and `lambda` times
// `turn` where an observation stands between them: a lambda that depends on the step (Sutton and Barto, Reinforcement
// Learning, 2nd edition, 12.8), which below 1 makes a turn answer for itself. VAGEN (arXiv 2510.16907) has the idea as
// a GAE of two levels.
struct Decay {
  double gamma = 1;
  double lambda = 0.95;
  double turn = 1;
};

// All spans have one entry a token of one trajectory. rewards and values are read, advantages and returns written,
// where mask is 1; both are 0 elsewhere. The state after the last action is worth 0, also when it was cut off.
// With `next` the action that follows t, and l the lambda between the two (arXiv 1506.02438):
//   delta[t] = r[t] + gamma V[next] - V[t];  A[t] = delta[t] + gamma l A[next];  R[t] = A[t] + V[t]
void gae(std::span<const uint8_t> mask, std::span<const float> rewards, std::span<const float> values,
         const Decay& decay, std::span<float> advantages, std::span<float> returns);

// VAPO's length-adaptive lambda, 1 - 1/(alpha * actions), kept within 0 and 1.
double adaptive_lambda(double alpha, int64_t actions);

enum class Whitening { none, center, full };

struct Moments {
  double mean = 0, std = 0;
};

// Over all tokens with mask 1 of the whole batch: (A - mean) / max(floor, sqrt(unbiased variance + 1e-8)), or only
// A - mean. A floor keeps the critic's own error from being scaled to unit size where all rewards are equal.
// Returns the moments before. `sum` adds up numbers over all ranks, where the batch is spread over several.
using SumOverRanks = std::function<void(std::vector<double>&)>;
Moments whiten(std::span<const uint8_t> mask, std::span<float> advantages, Whitening whitening,
               const SumOverRanks& sum = {}, double floor = 0);

}  // namespace khost::trainer
