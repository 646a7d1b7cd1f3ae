#include "sandbox/judge/evaluation/decision.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge {

void Decision::first_block(std::vector<double> samples, bool steady) {
  samples_ = std::move(samples);
  steady_ = steady;
}

Decision::One* Decision::find(const std::string& kind) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.kind == kind; });
  return found == all_.end() ? nullptr : &*found;
}

const Decision::One& Decision::at(const std::string& kind) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.kind == kind; });
  if (found == all_.end()) {
    throw std::logic_error("no baseline '" + kind + "' was given to the decision");
  }
  return *found;
}

void Decision::baseline(const std::string& kind, const Baseline& known) {
  One one;
  one.kind = kind;
  one.known = known;
  if (known.seconds < kResolved * slack_s_) {
    one.settled = Settled::short_baseline;
  } else if (known.steady && steady_) {
    if (const std::optional<bool> clear = clear_case(known, samples_, slack_s_)) {
      one.settled = Settled::clear;
      one.faster = *clear;
    }
  }
  all_.push_back(std::move(one));
}

void Decision::unavailable(const std::string& kind, const std::string& why) {
  One one;
  one.kind = kind;
  one.settled = Settled::no_baseline;
  one.had = false;
  one.why = why;
  all_.push_back(std::move(one));
}

std::vector<std::string> Decision::open() const {
  std::vector<std::string> result;
  for (const One& one : all_) {
    if (one.settled == Settled::open) {
      result.push_back(one.kind);
    }
  }
  return result;
}

bool Decision::is_open(const std::string& kind) const {
  return at(kind).settled == Settled::open;
}

bool Decision::wants_beside(const std::string& kind) const {
  return rules_.beside && is_open(kind);
}

void Decision::beside(const std::string& kind, double seconds) {
  One* const one = find(kind);
  if (one == nullptr || !wants_beside(kind)) {
    return;
  }
  one->beside_s = seconds;
  if (slower_beside(seconds, one->known, samples_, slack_s_)) {
    one->settled = Settled::beside;
  }
}

void Decision::before(const std::string& kind, double seconds) {
  if (One* const one = find(kind)) {
    one->before_s = seconds;
  }
}

void Decision::after(const std::string& kind, double seconds) {
  One* const one = find(kind);
  if (one == nullptr || one->settled != Settled::open || !one->before_s || candidate_s_ <= 0) {
    return;
  }
  one->brackets.push_back(bracket(*one->before_s, candidate_s_, seconds, slack_s_));
  one->before_s = seconds;
  if (const std::optional<bool> decided = decide(one->brackets)) {
    one->faster = *decided;
    one->settled = Settled::brackets;
  } else if (one->brackets.size() >= static_cast<std::size_t>(kMostBrackets)) {
    one->settled = Settled::undecided;
  }
}

void Decision::lost(const std::string& kind, const std::string& why) {
  One* const one = find(kind);
  if (one != nullptr && one->settled == Settled::open) {
    one->settled = Settled::no_baseline;
    one->why = why;
  }
}

Settled Decision::settled(const std::string& kind) const {
  return at(kind).settled;
}

bool Decision::faster(const std::string& kind) const {
  return at(kind).faster;
}

const std::vector<double>& Decision::brackets(const std::string& kind) const {
  return at(kind).brackets;
}

void Decision::write_times(Verdict& verdict) const {
  const double mine = median(samples_);
  for (const One& one : all_) {
    if (one.had) {
      verdict.times[one.kind + "_s"] = one.known.seconds;
      verdict.speedup[one.kind] = one.known.seconds / (mine + slack_s_);
    } else {
      verdict.evidence[one.kind + "_unavailable"] = one.why;
    }
  }
}

void Decision::write(Verdict& verdict) const {
  bool any = false;
  for (const One& one : all_) {
    if (!one.had) {
      continue;
    }
    any = true;
    verdict.faster[one.kind] = one.faster;
    verdict.evidence["brackets"][one.kind] = one.brackets;
    if (one.beside_s) {
      verdict.evidence["beside_s"][one.kind] = *one.beside_s;
    }
    if (one.settled == Settled::short_baseline) {
      verdict.evidence["unresolved"].push_back(one.kind);
      verdict.unresolved(SpeedReason::short_baseline);
    } else if (one.settled == Settled::no_baseline) {
      verdict.evidence[one.kind + "_missed"] = one.why;
      verdict.unresolved(SpeedReason::no_baseline);
    } else if (one.settled == Settled::undecided) {
      verdict.evidence["undecided"].push_back(one.kind);
    }
  }
  if (!any) {
    verdict.unresolved(SpeedReason::no_baseline);
  }
  verdict.measured();
}

}  // namespace khost::judge
