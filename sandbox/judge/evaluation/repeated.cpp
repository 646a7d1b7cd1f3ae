#include "sandbox/judge/evaluation/repeated.h"

#include <algorithm>
#include <iterator>

#include "sandbox/judge/values/tolerance.h"

namespace khost::judge {

std::string Repeated::Found::text() const {
  return std::to_string(elements) + " elements of output " + std::to_string(output) +
         " are other ones than the reference's in each of " + std::to_string(sets) +
         " sets: what it leaves undecided lies elsewhere in each";
}

std::optional<Repeated::Found> Repeated::add(std::size_t set, const Excused& excused) {
  if (!sets_.insert(set).second) {
    return std::nullopt;
  }
  if (sets_.size() == 1) {
    always_ = excused;
    by_chance_.assign(elements_.begin(), elements_.end());
  }
  std::optional<Found> found;
  for (std::size_t i = 0; i < excused.size(); i++) {
    std::vector<std::int64_t> both;
    std::set_intersection(always_[i].begin(), always_[i].end(), excused[i].begin(), excused[i].end(),
                          std::back_inserter(both));
    always_[i] = std::move(both);
    by_chance_[i] *=
        static_cast<double>(excused[i].size()) / static_cast<double>(std::max<std::int64_t>(1, elements_[i]));
    if (!found && sets_.size() >= kFewestSets && always_[i].size() > wrong_samples(by_chance_[i])) {
      found = Found{i, always_[i].size(), sets_.size()};
    }
  }
  return found;
}

}  // namespace khost::judge
