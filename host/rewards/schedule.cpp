#include "host/rewards/schedule.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace khost {

namespace {

std::string number(double value) {
  char text[32];
  snprintf(text, sizeof text, "%g", value);
  return text;
}

Failure out_of_range(const std::string& what, double value, const RewardRange& range) {
  return Failure{what + " returned " + number(value) + ", legal is " + number(range.low) + " to " + number(range.high),
                 "range"};
}

}  // namespace

Result<Scored> RewardScheme::score(EpisodeRef episode, int64_t step) const {
  Scored sum;
  for (const auto& term : terms) {
    auto scored = term.score(episode);
    if (!scored) {
      return scored.failure();
    }
    if (!std::isfinite(scored->total)) {
      return Failure{"'" + term.name + "' returned " + number(scored->total) + ", which is not finite", "range"};
    }
    for (const auto& [part, value] : scored->parts) {
      if (!std::isfinite(value)) {
        return Failure{"part '" + part + "' of '" + term.name + "' is not finite", "range"};
      }
    }
    sum.total += term.weight.at(step) * scored->total;
    if (whole) {
      sum.parts = scored->parts;
    } else {
      sum.parts[term.name] = scored->total;
    }
  }
  if (!clip && (sum.total < range.low || sum.total > range.high)) {
    return out_of_range("scheme '" + name + "'", sum.total, range);
  }
  sum.total = std::clamp(sum.total, range.low, range.high);
  return sum;
}

Result<RewardSchedule> RewardSchedule::create(std::map<int64_t, RewardScheme> schemes) {
  if (schemes.empty()) {
    return Failure{"a reward schedule needs at least one scheme", "bad_input"};
  }
  for (const auto& [step, scheme] : schemes) {
    if (scheme.terms.empty()) {
      return Failure{"scheme '" + scheme.name + "' has no terms", "bad_input"};
    }
    if (!(scheme.range.low <= scheme.range.high)) {
      return Failure{"scheme '" + scheme.name + "' has an empty range", "bad_input"};
    }
    std::set<std::string> names;
    for (const auto& term : scheme.terms) {
      if (!names.insert(term.name).second) {
        return Failure{"scheme '" + scheme.name + "' has the term '" + term.name + "' twice", "bad_input"};
      }
    }
  }
  return RewardSchedule(std::move(schemes));
}

const RewardScheme& RewardSchedule::scheme(int64_t step) const {
  auto behind = schemes_.upper_bound(step);
  return behind == schemes_.begin() ? behind->second : std::prev(behind)->second;
}

std::map<std::string, double> RewardSchedule::weights(int64_t step) const {
  std::map<std::string, double> weights;
  for (const auto& term : scheme(step).terms) {
    weights[term.name] = term.weight.at(step);
  }
  return weights;
}

Result<Scored> RewardSchedule::score(EpisodeRef episode, int64_t step) {
  auto scored = scheme(step).score(episode, step);
  if (scored) {
    ++counts_.scored;
    return scored;
  }
  const Failure& failure = scored.failure();
  (failure.code == "void" ? counts_.void_ : failure.code == "range" ? counts_.range : counts_.raised)++;
  counts_.last_message = failure.message;
  return scored;
}

}  // namespace khost
