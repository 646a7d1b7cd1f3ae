// Elements that a share excuses are ones that the reference does not decide: ties and jumps, which lie elsewhere in
// each set. Those that lie beyond their bounds in every set are no such elements: something was not computed there.
// Nor are those at the ends of an output, where a loop over vectors leaves a rest, if they are there in more sets than
// chance explains; nor those of any place, where they come in more sets than the reference jumps in.
// Pure values, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/judge/values/tolerance.h"

namespace khost::judge {

// Of one set: for each output the flat indices of the elements that its share excuses, ascending.
using Excused = std::vector<std::vector<std::int64_t>>;

class Repeated {
 public:
  static constexpr std::size_t kFewestSets = 4;  // of which an element that lies beyond in all says something
  static constexpr std::int64_t kEnd = 16;       // elements at an end of an output, ...
  static constexpr std::int64_t kLong = 1 << 9;  // ... of one with so many
  static constexpr double kMargin = 1.25;        // times as many elements as were seen to lie beyond in every set
  static constexpr double kChance = 1e-9;        // with which some lie beyond there in as many sets

  struct Found {
    std::size_t output = 0;
    std::size_t elements = 0;  // that lay beyond in every set
    std::size_t sets = 0;
    const char* end = nullptr;  // "first" or "last", where some lay beyond in so many sets
    bool often = false;         // some lay beyond in so many sets

    std::string text() const;
  };

  // `elements`: of each output.
  explicit Repeated(std::vector<std::int64_t> elements = {}) : elements_(std::move(elements)) {}

  // Counts the set with this number, unless it was counted before; `tolerances` are those of its outputs. Returns an
  // output of which more elements than chance explains lay beyond in every set so far, or at an end, or in too many
  // sets.
  std::optional<Found> add(std::size_t set, const Excused& excused, const std::vector<Tolerance>& tolerances);

 private:
  // Counts a set in which excused elements lie at the ends of an output.
  std::optional<Found> at_ends(std::size_t output, const std::vector<std::int64_t>& excused);
  // Counts a set in which elements are excused, of which so many jumps are expected.
  std::optional<Found> too_often(std::size_t output, bool excused, double jumps);

  std::vector<std::int64_t> elements_;
  Excused always_;                 // beyond in every set so far
  std::vector<double> by_chance_;  // so many of an output's elements are expected there
  struct Ends {
    std::size_t first = 0, last = 0;  // sets in which elements lay beyond there
    double expected = 0;              // by chance, at either end
  };
  std::vector<Ends> ends_;
  struct Often {
    std::size_t sets = 0;
    double expected = 0;
  };
  std::vector<Often> often_;
  std::set<std::size_t> sets_;
};

}  // namespace khost::judge
