// One forward pass over some trajectories of a batch: their padded ids, and which output rows score which actions.
// N actions, B trajectories, T positions.
#pragma once

#include <vector>

#include "trainer/learn/batch.h"
#include "trainer/torch.h"

namespace khost::trainer {

struct Pass {
  at::Tensor tokens_BT;           // padded on the right with id 0
  at::Tensor rows_N;              // output row (b*T + t-1) of each action t
  at::Tensor targets_N;           // its id
  std::vector<int64_t> places;    // its index in the batch's columns
  std::vector<int64_t> ordinals;  // its index among the actions of the whole batch, in trajectory order
};

Pass make_pass(const Batch& batch, const std::vector<int64_t>& trajectories);

// Entries `at` of `column` as a tensor.
at::Tensor gather(const std::vector<float>& column, const std::vector<int64_t>& at);
// The other way: column[at[i]] = values[i].
void scatter(const at::Tensor& values_N, const std::vector<int64_t>& at, std::vector<float>& column);

}  // namespace khost::trainer
