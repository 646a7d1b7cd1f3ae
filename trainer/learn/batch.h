// A pack of trajectories with everything the objectives read: ids, masks, rewards and the columns that are filled in
// before an update. Plain memory, free of LibTorch headers; owned by one thread at a time.
//
// mask[t] = 1 marks a token that the sampler drew (an action). The log-probability and the value of token t come from
// the network's output at t-1, so that a value is that of the state *before* the token. Nothing ever reads a column
// where the mask is 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/base/result.h"

namespace khost::trainer {

using Metrics = std::map<std::string, double>;

struct Episode {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  std::vector<float> logprobs;  // the sampler's: one a token, or one an action, or none
  double reward = 0;            // of the whole trajectory; placed on its last action
  int64_t group = -1;           // trajectories of one task, for group advantages and prompt-mean
};

struct PackOptions {
  int64_t tokens = 8192;   // most tokens, padding included, in one forward and backward pass
  double temperature = 1;  // that the actions were drawn with
};

enum class Column { sampler_logp, old_logp, ref_logp, values, advantages, returns, mc_returns };
constexpr int kColumns = 7;
const char* column_name(Column column);

class Batch {
 public:
  static Result<Batch> pack(const std::vector<Episode>& episodes, const PackOptions& options);

  int64_t trajectories() const { return static_cast<int64_t>(rewards_.size()); }
  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t actions() const;   // tokens with mask 1
  int64_t nonempty() const;  // trajectories with at least one action
  int64_t begin(int64_t trajectory) const { return offsets_[static_cast<size_t>(trajectory)]; }
  int64_t end(int64_t trajectory) const { return offsets_[static_cast<size_t>(trajectory) + 1]; }
  int64_t actions(int64_t trajectory) const { return action_counts_[static_cast<size_t>(trajectory)]; }
  double reward(int64_t trajectory) const { return rewards_[static_cast<size_t>(trajectory)]; }
  int64_t group(int64_t trajectory) const { return groups_[static_cast<size_t>(trajectory)]; }
  const std::vector<int32_t>& ids() const { return tokens_; }
  const std::vector<uint8_t>& mask() const { return mask_; }
  double temperature() const { return options_.temperature; }

  // One number for each token, in trajectory order; empty until filled.
  std::vector<float>& column(Column column) { return columns_[static_cast<size_t>(column)]; }
  const std::vector<float>& column(Column column) const { return columns_[static_cast<size_t>(column)]; }
  bool has(Column column) const { return !columns_[static_cast<size_t>(column)].empty(); }

  // The entries at actions, in trajectory order; empty when the column is not filled.
  std::vector<float> action_column(Column column) const;

  // Trajectories that share one pass: alike in length, within the token budget. Empty trajectories are in none.
  std::vector<std::vector<int64_t>> micro_batches() const;

  // Parts of `trajectories` each (0: all), every trajectory once an epoch, in an order drawn from `seed`. Columns,
  // advantages included, go along.
  std::vector<Batch> split(int64_t trajectories, int64_t epochs, uint64_t seed) const;

  Batch select(const std::vector<int64_t>& trajectories) const;

 private:
  PackOptions options_;
  std::vector<int32_t> tokens_;
  std::vector<uint8_t> mask_;
  std::vector<int64_t> offsets_ = {0};
  std::vector<int64_t> action_counts_, groups_;
  std::vector<double> rewards_;
  std::vector<float> columns_[kColumns];
};

}  // namespace khost::trainer
