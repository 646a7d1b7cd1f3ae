#include "trainer/learn/batch.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace khost::trainer {
namespace {

Failure bad(size_t index, const std::string& message) {
  return Failure{"episode " + std::to_string(index + 1) + ": " + message, "bad_input"};
}

Status check(const Episode& episode, size_t index) {
  const size_t count = episode.tokens.size();
  const auto actions = static_cast<size_t>(std::count(episode.mask.begin(), episode.mask.end(), uint8_t{1}));
  if (count == 0) {
    return bad(index, "has no tokens");
  }
  if (episode.mask.size() != count) {
    return bad(index, "has " + std::to_string(count) + " tokens but a mask of " + std::to_string(episode.mask.size()));
  }
  if (episode.mask[0] != 0) {
    return bad(index, "begins with an action; a prompt of at least one token must come first");
  }
  if (!episode.logprobs.empty() && episode.logprobs.size() != count && episode.logprobs.size() != actions) {
    return bad(index,
               "has " + std::to_string(episode.logprobs.size()) + " logprobs, expected one a token or one an action");
  }
  if (!std::isfinite(episode.reward)) {
    return bad(index, "has a reward that is no finite number");
  }
  return ok();
}

}  // namespace

const char* column_name(Column column) {
  static const char* const names[kColumns] = {"sampler_logp", "old_logp", "ref_logp",  "values",
                                              "advantages",   "returns",  "mc_returns"};
  return names[static_cast<size_t>(column)];
}

Result<Batch> Batch::pack(const std::vector<Episode>& episodes, const PackOptions& options) {
  Batch batch;
  batch.options_ = options;
  if (episodes.empty()) {
    return Failure{"pack: no episodes", "bad_input"};
  }
  if (options.temperature <= 0) {
    return Failure{"pack: temperature must be above 0", "bad_input"};
  }
  const bool sampled = std::all_of(episodes.begin(), episodes.end(), [](const Episode& e) {
    return !e.logprobs.empty() || std::count(e.mask.begin(), e.mask.end(), uint8_t{1}) == 0;
  });
  std::vector<float>& logp = batch.column(Column::sampler_logp);
  for (size_t i = 0; i < episodes.size(); ++i) {
    const Episode& episode = episodes[i];
    if (const Status checked = check(episode, i); !checked) {
      return checked.failure();
    }
    batch.tokens_.insert(batch.tokens_.end(), episode.tokens.begin(), episode.tokens.end());
    int64_t actions = 0;
    for (size_t t = 0; t < episode.mask.size(); ++t) {
      const bool action = episode.mask[t] != 0;
      batch.mask_.push_back(action);
      if (sampled) {
        const size_t at = episode.logprobs.size() == episode.tokens.size() ? t : static_cast<size_t>(actions);
        logp.push_back(action ? episode.logprobs[at] : 0.0f);
      }
      actions += action;
    }
    batch.offsets_.push_back(static_cast<int64_t>(batch.tokens_.size()));
    batch.action_counts_.push_back(actions);
    batch.rewards_.push_back(episode.reward);
    batch.groups_.push_back(episode.group);
  }
  return batch;
}

int64_t Batch::actions() const {
  return std::accumulate(action_counts_.begin(), action_counts_.end(), int64_t{0});
}

int64_t Batch::nonempty() const {
  return std::count_if(action_counts_.begin(), action_counts_.end(), [](int64_t count) { return count > 0; });
}

std::vector<float> Batch::action_column(Column name) const {
  std::vector<float> out;
  if (has(name)) {
    for (size_t t = 0; t < mask_.size(); ++t) {
      if (mask_[t] != 0) {
        out.push_back(column(name)[t]);
      }
    }
  }
  return out;
}

std::vector<std::vector<int64_t>> Batch::micro_batches() const {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < trajectories(); ++i) {
    if (actions(i) > 0) {
      order.push_back(i);
    }
  }
  const auto length = [this](int64_t i) { return end(i) - begin(i); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::vector<std::vector<int64_t>> parts;
  for (const int64_t i : order) {
    // The first of a part is its longest, and all are padded to it.
    const bool fits =
        !parts.empty() && static_cast<int64_t>(parts.back().size() + 1) * length(parts.back()[0]) <= options_.tokens;
    if (!fits) {
      parts.emplace_back();
    }
    parts.back().push_back(i);
  }
  return parts;
}

std::vector<Batch> Batch::split(int64_t count, int64_t epochs, uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::vector<int64_t> order(static_cast<size_t>(trajectories()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto step = static_cast<size_t>(count > 0 ? count : trajectories());
  std::vector<Batch> parts;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (size_t i = order.size(); i > 1; --i) {  // std::shuffle differs between standard libraries
      std::swap(order[i - 1], order[random() % i]);
    }
    for (size_t from = 0; from < order.size(); from += step) {
      const size_t to = std::min(from + step, order.size());
      parts.push_back(select({order.begin() + static_cast<int64_t>(from), order.begin() + static_cast<int64_t>(to)}));
    }
  }
  return parts;
}

Batch Batch::select(const std::vector<int64_t>& trajectories) const {
  Batch part;
  part.options_ = options_;
  for (const int64_t i : trajectories) {
    const auto copy = [&](const auto& from, auto& to) {
      to.insert(to.end(), from.begin() + begin(i), from.begin() + end(i));
    };
    copy(tokens_, part.tokens_);
    copy(mask_, part.mask_);
    for (int c = 0; c < kColumns; ++c) {
      if (!columns_[c].empty()) {
        copy(columns_[c], part.columns_[c]);
      }
    }
    part.offsets_.push_back(static_cast<int64_t>(part.tokens_.size()));
    part.action_counts_.push_back(actions(i));
    part.rewards_.push_back(reward(i));
    part.groups_.push_back(group(i));
  }
  return part;
}

}  // namespace khost::trainer
