// Elements that a share excuses are ones that the reference does not decide: ties and jumps, which lie elsewhere in
// each set. Those that lie beyond their bounds in every set are no such elements: something was not computed there.
// Nor are those at the ends of an output, where a loop over vectors leaves a rest, if they are there in more sets than
// chance explains.
// Pure values, one thread.
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
  static constexpr std::size_t kFewestSets = 4;   // of which an element that lies beyond in all says something
  static constexpr std::int64_t kEnd = 16;        // elements at an end of an output, ...
  static constexpr std::int64_t kLong = 1 << 12;  // ... of one with so many
  static constexpr double kChance = 1e-9;         // with which some lie beyond there in as many sets

  struct Found {
    std::size_t output = 0;
    std::size_t elements = 0;  // that lay beyond in every set
    std::size_t sets = 0;
    const char* end = nullptr;  // "first" or "last", where some lay beyond in so many sets

    std::string text() const;
  };

  // `elements`: of each output.
  explicit Repeated(std::vector<std::int64_t> elements = {}) : elements_(std::move(elements)) {}

  // Counts the set with this number, unless it was counted before. Returns an output of which more elements than chance
  // explains lay beyond in every set so far, or at an end.
  std::optional<Found> add(std::size_t set, const Excused& excused);

 private:
  // Counts a set in which excused elements lie at the ends of an output.
  std::optional<Found> at_ends(std::size_t output, const std::vector<std::int64_t>& excused);

  std::vector<std::int64_t> elements_;
  Excused always_;                 // beyond in every set so far
  std::vector<double> by_chance_;  // so many of an output's elements are expected there
  struct Ends {
    std::size_t first = 0, last = 0;  // sets in which elements lay beyond there
    double expected = 0;              // by chance, at either end
  };
  std::vector<Ends> ends_;
  std::set<std::size_t> sets_;
};

}  // namespace khost::judge
