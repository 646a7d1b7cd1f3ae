#include "sandbox/judge/evaluation/repeated.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sandbox/judge/values/tolerance.h"

namespace khost::judge {

namespace {

// How likely it is to count so many or more where so many are expected (Poisson).
double tail(std::size_t count, double expected) {
  double term = std::exp(-expected), below = 0;
  for (std::size_t i = 0; i < count; i++) {
    below += term;
    term *= expected / static_cast<double>(i + 1);
  }
  // Of a small tail a difference from one keeps no digit; its first term is nearly all of it.
  return expected < static_cast<double>(count) / 2 ? term : 1 - below;
}

}  // namespace

std::string Repeated::Found::text() const {
  if (often) {
    return "in " + std::to_string(sets) + " sets elements of output " + std::to_string(output) +
           " are other ones than the reference's, which leaves some undecided in far fewer";
  }
  if (end != nullptr) {
    return "in " + std::to_string(sets) + " sets some of the " + end + " " + std::to_string(kEnd) +
           " elements of output " + std::to_string(output) +
           " are other ones than the reference's: what it leaves undecided is spread over the whole";
  }
  return std::to_string(elements) + " elements of output " + std::to_string(output) +
         " are other ones than the reference's in each of " + std::to_string(sets) +
         " sets: what it leaves undecided lies elsewhere in each";
}

std::optional<Repeated::Found> Repeated::add(std::size_t set, const Excused& excused,
                                             const std::vector<Tolerance>& tolerances) {
  if (!sets_.insert(set).second) {
    return std::nullopt;
  }
  if (sets_.size() == 1) {
    always_ = excused;
    by_chance_.assign(elements_.begin(), elements_.end());
  }
  ends_.resize(excused.size());
  often_.resize(excused.size());
  std::optional<Found> found;
  for (std::size_t i = 0; i < excused.size(); i++) {
    std::vector<std::int64_t> both;
    std::set_intersection(always_[i].begin(), always_[i].end(), excused[i].begin(), excused[i].end(),
                          std::back_inserter(both));
    always_[i] = std::move(both);
    by_chance_[i] *=
        static_cast<double>(excused[i].size()) / static_cast<double>(std::max<std::int64_t>(1, elements_[i]));
    const double undecided = kMargin * static_cast<double>(tolerances[i].always);
    if (!found && sets_.size() >= kFewestSets && always_[i].size() > wrong_samples(by_chance_[i] + undecided)) {
      found = Found{i, always_[i].size(), sets_.size()};
    }
    if (const auto at_end = at_ends(i, excused[i]); !found && at_end && !tolerances[i].at_ends) {
      found = at_end;
    }
    if (const auto often = too_often(i, !excused[i].empty(), tolerances[i].jumps); !found && often) {
      found = often;
    }
  }
  return found;
}

std::optional<Repeated::Found> Repeated::at_ends(std::size_t output, const std::vector<std::int64_t>& excused) {
  const std::int64_t count = elements_[output];
  if (count < kLong) {
    return std::nullopt;
  }
  Ends& ends = ends_[output];
  const auto first = std::lower_bound(excused.begin(), excused.end(), kEnd);
  const auto last = std::lower_bound(excused.begin(), excused.end(), count - kEnd);
  ends.first += first != excused.begin() ? 1 : 0;
  ends.last += last != excused.end() ? 1 : 0;
  const double share = static_cast<double>(excused.size()) / static_cast<double>(count);
  ends.expected += std::min(1.0, share * static_cast<double>(kEnd));
  for (const auto& [seen, name] : {std::pair{ends.first, "first"}, std::pair{ends.last, "last"}}) {
    if (sets_.size() >= kFewestSets && tail(seen, ends.expected) < kChance) {
      return Found{output, 0, seen, name};
    }
  }
  return std::nullopt;
}

std::optional<Repeated::Found> Repeated::too_often(std::size_t output, bool excused, double jumps) {
  if (!std::isfinite(jumps)) {
    return std::nullopt;
  }
  Often& often = often_[output];
  often.sets += excused ? 1 : 0;
  often.expected += 1 - std::exp(-jumps);
  const bool found = sets_.size() >= kFewestSets && tail(often.sets, often.expected) < kChance;
  return found ? std::optional<Found>(Found{output, 0, often.sets, nullptr, true}) : std::nullopt;
}

}  // namespace khost::judge
