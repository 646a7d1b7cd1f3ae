// Elements that a share excuses are ones that the reference does not decide: ties and jumps, which lie elsewhere in each
// set. Those that lie beyond their bounds in every set are no such elements: something was not computed there. Pure
// values, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace khost::judge {

// Of one set: for each output the flat indices of the elements that its share excuses, ascending.
using Excused = std::vector<std::vector<std::int64_t>>;

class Repeated {
 public:
  static constexpr std::size_t kFewestSets = 4;  // of which an element that lies beyond in all says something

  struct Found {
    std::size_t output = 0;
    std::size_t elements = 0;  // that lay beyond in every set
    std::size_t sets = 0;

    std::string text() const;
  };

  // `elements`: of each output.
  explicit Repeated(std::vector<std::int64_t> elements = {}) : elements_(std::move(elements)) {}

  // Counts the set with this number, unless it was counted before. Returns an output of which more elements than chance
  // explains lay beyond in every set so far.
  std::optional<Found> add(std::size_t set, const Excused& excused);

 private:
  std::vector<std::int64_t> elements_;
  Excused always_;                 // beyond in every set so far
  std::vector<double> by_chance_;  // so many of an output's elements are expected there
  std::set<std::size_t> sets_;
};

}  // namespace khost::judge
