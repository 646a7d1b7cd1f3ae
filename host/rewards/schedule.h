// The reward scheduler: which scheme holds at a step, what an episode scores under it, and how many were void.
// Schemes and terms are callbacks; the scheduler checks what they return and never invents a score: a callback that
// fails voids the episode, which is counted and not scored 0.
// Used from one thread, the one that owns the callbacks.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "host/rewards/curve.h"

namespace khost {

// The scheduler does not look into an episode; the callbacks know what it points at.
using EpisodeRef = const void*;

struct Scored {
  double total = 0;
  std::map<std::string, double> parts;
};

// Failure codes: "void" when the callback declines to score, "raised" when it broke.
using ScoreFunction = std::function<Result<Scored>(EpisodeRef)>;

struct RewardRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

struct RewardTerm {
  std::string name;
  Curve weight = Curve::constant(1);
  ScoreFunction score;
};

// A whole scheme is one term of weight 1 that names its own parts; a scheme of terms adds weight × value.
struct RewardScheme {
  std::string name;
  RewardRange range;
  bool clip = false;   // move a total outside the range to its border instead of voiding
  bool whole = false;  // `terms` holds the one function that is the scheme
  std::vector<RewardTerm> terms;

  // Codes as above, and "range" for a total, or a part, that is not finite or outside the range.
  Result<Scored> score(EpisodeRef episode, int64_t step) const;
};

struct RewardCounts {
  int64_t scored = 0, void_ = 0, raised = 0, range = 0;
  std::string last_message;
};

class RewardSchedule {
 public:
  // Schemes by the step from which they hold. Fails for none, for a duplicate term name, for an empty range.
  static Result<RewardSchedule> create(std::map<int64_t, RewardScheme> schemes);

  const RewardScheme& scheme(int64_t step) const;
  std::map<std::string, double> weights(int64_t step) const;
  Result<Scored> score(EpisodeRef episode, int64_t step);
  const RewardCounts& counts() const { return counts_; }

 private:
  explicit RewardSchedule(std::map<int64_t, RewardScheme> schemes) : schemes_(std::move(schemes)) {}

  std::map<int64_t, RewardScheme> schemes_;
  RewardCounts counts_;
};

}  // namespace khost
