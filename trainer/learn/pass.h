// One forward pass over some trajectories of a batch: their ids, and which output rows score which actions.
// N actions.
#pragma once

#include <functional>
#include <vector>

#include "trainer/learn/batch.h"
#include "trainer/model/transformer.h"
#include "trainer/torch.h"

namespace khost::trainer {

struct Pass {
  Sequences sequences;            // on the device of the network
  at::Tensor rows_N;              // output row (that of token t-1) of each action t
  at::Tensor targets_N;           // its id
  std::vector<int64_t> places;    // its index in the batch's columns
  std::vector<int64_t> ordinals;  // its index among the actions of the whole batch, in trajectory order
};

// For these weights: padded on the right with id 0, or packed where their attention reads packed rows.
Pass make_pass(const Batch& batch, const std::vector<int64_t>& trajectories, const Weights& weights);

// Entries `at` of `column` as a tensor on `device`.
at::Tensor gather(const std::vector<float>& column, const std::vector<int64_t>& at, at::Device device);
// The other way: column[at[i]] = values[i].
void scatter(const at::Tensor& values_N, const std::vector<int64_t>& at, std::vector<float>& column);
// The same in two parts: the copy from a device is queued now, and what is returned waits for it and scatters.
// Work that is queued in between is not waited for.
std::function<void()> scatter_later(const at::Tensor& values_N, const std::vector<int64_t>& at,
                                    std::vector<float>& column);

}  // namespace khost::trainer
