#include "sandbox/judge/evaluation/statistics.h"

#include <doctest/doctest.h>

#include <algorithm>

#include <cmath>
#include <optional>
#include <random>
#include <vector>

namespace khost::judge {
namespace {

// Times as a busy machine gives them: the process has an effect of its own, calls scatter, some are far out.
class Machine {
 public:
  Machine(unsigned seed, double process_spread, double call_spread)
      : random_(seed), process_(process_spread), call_(call_spread) {}

  std::vector<double> block(double seconds, int calls = 20) {
    const double mine = seconds * std::exp(process_ * normal_(random_));
    std::vector<double> samples;
    for (int i = 0; i < calls; i++) {
      const double far = uniform_(random_) < 0.05 ? 1 + 3 * uniform_(random_) : 1;
      samples.push_back(mine * far * std::exp(call_ * normal_(random_)));
    }
    return samples;
  }

  // As cuda/evaluation_time.cpp decides: the cached baseline when that is clear, a block of it beside the candidate's
  // when that shows that it is not faster, else brackets.
  bool faster(double baseline_s, double candidate_s, double slack_s = 0) {
    std::vector<double> medians;
    for (int i = 0; i < 3; i++) {
      medians.push_back(median(block(baseline_s)));
    }
    const Baseline known = baseline_of(medians);
    const std::vector<double> first = block(candidate_s);
    if (const auto clear = clear_case(known, first, slack_s)) {
      return *clear;
    }
    if (slower_beside(median(block(baseline_s)), known, first, slack_s)) {
      return false;
    }
    std::vector<double> brackets;
    double before = median(block(baseline_s));
    while (brackets.size() < static_cast<std::size_t>(kMostBrackets)) {
      const double mine = median(block(candidate_s));
      const double after = median(block(baseline_s));
      brackets.push_back(bracket(before, mine, after, slack_s));
      if (const auto decided = decide(brackets)) {
        return *decided;
      }
      before = after;
    }
    return false;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double process_, call_;
};

int count_faster(Machine& machine, int verdicts, double baseline_s, double candidate_s, double slack_s = 0) {
  int found = 0;
  for (int i = 0; i < verdicts; i++) {
    found += machine.faster(baseline_s, candidate_s, slack_s) ? 1 : 0;
  }
  return found;
}

TEST_CASE("equal programs are called faster in fewer than one verdict of a hundred") {
  for (const double spread : {0.002, 0.01, 0.02, 0.03}) {
    Machine machine(7, spread, 0.03);
    CAPTURE(spread);
    CHECK(count_faster(machine, 2000, 1e-3, 1e-3) <= 20);
  }
}

TEST_CASE("a program that is exactly 5 % faster is not called so in more than one verdict of a hundred") {
  for (const double spread : {0.002, 0.01, 0.02}) {
    Machine machine(11, spread, 0.03);
    CAPTURE(spread);
    CHECK(count_faster(machine, 2000, 1e-3, 0.95e-3) <= 20);
  }
}

TEST_CASE("a program that is 10 % faster is found on a steady machine, and 20 % on a noisy one") {
  Machine steady(13, 0.003, 0.02);
  CHECK(count_faster(steady, 500, 1e-3, 0.9e-3) >= 450);
  Machine noisy(17, 0.01, 0.05);
  CHECK(count_faster(noisy, 500, 1e-3, 0.8e-3) >= 450);
}

TEST_CASE("the slack is charged to the candidate: a gain below it never counts") {
  Machine machine(19, 0.005, 0.02);
  CHECK(count_faster(machine, 1000, 1e-3, 0.85e-3, 0.15e-3) <= 10);
  CHECK(count_faster(machine, 200, 1e-3, 0.5e-3, 0.15e-3) >= 190);
}

TEST_CASE("a baseline timed beside says of an equal program that it is not faster, and never of one that is") {
  Machine machine(23, 0.003, 0.02);
  const Baseline steady = baseline_of({1e-3, 1.001e-3, 0.999e-3});
  int equal = 0, wrong = 0;
  for (int i = 0; i < 500; i++) {
    equal += slower_beside(median(machine.block(1e-3)), steady, machine.block(1e-3), 0) ? 1 : 0;
    wrong += slower_beside(median(machine.block(1e-3)), steady, machine.block(0.94e-3), 0) ? 1 : 0;
  }
  CHECK(equal >= 300);  // the others are left to brackets
  CHECK(wrong == 0);
  const std::vector<double> same(12, 1e-3);
  CHECK(slower_beside(1e-3, steady, same, 0));
  CHECK_FALSE(slower_beside(1e-3, steady, {1e-3, 1e-3}, 0));  // too few calls
  CHECK_FALSE(slower_beside(0, steady, same, 0));
  CHECK_FALSE(slower_beside(1e-3, baseline_of({1e-3, 1.03e-3, 0.98e-3}), same, 0));  // its processes differ
}

TEST_CASE("three brackets that agree decide, and more where they do not") {
  CHECK_FALSE(decide({}).has_value());
  CHECK_FALSE(decide({0.5}).has_value());
  CHECK_FALSE(decide({0.7, 0.7}).has_value());
  CHECK(decide({0.7, 0.7, 0.7}) == true);
  CHECK(decide({-0.7, -0.7, -0.7}) == false);
  CHECK_FALSE(decide({0.02, 0.09, 0.05, 0.08, 0.01}).has_value());
}

const double kThreshold = -std::log(1 - kFaster);

TEST_CASE("brackets that are far apart decide by their ranks: all of nine on one side, or most of the weight of more") {
  // The first is far off and takes the mean's certainty away.
  std::vector<double> faster{0.9, 0.2, 0.25, 0.15, 0.2, 0.3, 0.2, 0.1};
  CHECK_FALSE(decide(faster).has_value());
  faster.push_back(0.2);
  CHECK(decide(faster) == true);
  std::vector<double> slower(faster);
  for (double& value : slower) {
    value = -value;
  }
  CHECK(decide(slower) == false);
  for (const double other : {-0.3, 0.3}) {
    for (const auto& [count, most] : {std::pair<std::size_t, std::size_t>{14, 4}, {19, 18}, {24, 40}}) {
      std::vector<double> all;
      for (std::size_t i = 0; i < count; i++) {  // ranks from 1 on, all on one side of the threshold
        all.push_back(kThreshold - other * (1 + 0.1 * static_cast<double>(i)));
      }
      const auto turned = [&](std::size_t rank) { return 2 * kThreshold - all[rank - 1]; };
      std::size_t left = most;  // as much weight on the other side as may be, from the largest ranks down
      for (std::size_t rank = count; rank > 0; rank--) {
        if (rank <= left) {
          all[rank - 1] = turned(rank);
          left -= rank;
        }
      }
      REQUIRE(left == 0);
      CHECK(decide(all) == (other < 0));
      all[0] = turned(1);
      CHECK_FALSE(decide(all).has_value());
    }
  }
}

TEST_CASE("blocks of which every tenth is a tenth off leave most verdicts decided, and equal ones never faster") {
  std::mt19937 random(29);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto block = [&](double seconds) {
    return seconds * std::exp(0.01 * normal(random)) * (uniform(random) < 0.1 ? 1.1 : 1);
  };
  const auto count = [&](double candidate_s, bool wanted) {
    int found = 0;
    for (int i = 0; i < 400; i++) {
      std::vector<double> brackets;
      std::optional<bool> decided;
      for (double before = block(1e-3); !decided && brackets.size() < static_cast<std::size_t>(kMostBrackets);) {
        const double mine = block(candidate_s), after = block(1e-3);
        brackets.push_back(bracket(before, mine, after, 0));
        decided = decide(brackets);
        before = after;
      }
      found += decided == wanted ? 1 : 0;
    }
    return found;
  };
  CHECK(count(1e-3, false) >= 370);
  CHECK(count(1e-3, true) == 0);
  CHECK(count(0.85e-3, true) >= 390);
  CHECK(count(0.85e-3, false) == 0);
}

TEST_CASE("a block counts where three of four windows were undisturbed, and all of its windows decide") {
  BlockTimes times;
  CHECK_FALSE(times.steady());
  for (int i = 0; i < 20; i++) {
    times.add(i < 5 ? 9 : 1, i >= 5, 1.5);
  }
  CHECK(times.steady());
  CHECK(times.disturbed() == 5);
  CHECK(times.samples().size() == 20);
  CHECK(median(times.samples()) == 1);
  CHECK(*std::max_element(times.samples().begin(), times.samples().end()) == 1.5);
  times.add(9, false, 1.5);
  CHECK_FALSE(times.steady());
  CHECK(times.samples().size() == 21);  // nobody chooses which of them count
  CHECK(*std::max_element(times.samples().begin(), times.samples().end()) == 9);
}

TEST_CASE("who is slow in most of its windows is not fast because it disturbs some of these") {
  BlockTimes times;
  for (int i = 0; i < 20; i++) {
    const bool slow = i < 12, disturbed = i < 5;
    times.add(slow ? 2 : 1, !disturbed, slow ? 1.9 : 1);
  }
  REQUIRE(times.steady());
  CHECK(median(times.samples()) >= 1.9);
}

TEST_CASE("a window on a new set that was disturbed shows no memory, and no speed where it looks like one") {
  const std::vector<double> seen(20, 1e-3);
  CHECK(memory_of(seen, {2e-3, 2e-3, 2e-3}, true, 0) == Memory::remembers);
  CHECK(memory_of(seen, {2e-3, 2e-3, 2e-3}, false, 0) == Memory::doubtful);
  CHECK(memory_of(seen, {1e-3, 2e-3, 1e-3}, false, 0) == Memory::none);
}

TEST_CASE("sets that were shown before may be faster by a tenth and two slacks, and no more") {
  const std::vector<double> seen(20, 1e-3);
  CHECK_FALSE(remembers(seen, {1.1e-3, 1.1e-3, 1.1e-3}, 0));
  CHECK(remembers(seen, {1.11e-3, 1.11e-3, 1.11e-3}, 0));
  CHECK_FALSE(remembers(seen, {1.11e-3, 1.11e-3, 1.11e-3}, 1e-5));
  CHECK(remembers(seen, {1.13e-3, 1.13e-3, 1.13e-3}, 1e-5));
  CHECK_FALSE(remembers(seen, {9e-3, 1e-3, 1e-3}, 0));  // one disturbed call is no sign
  CHECK_FALSE(remembers(seen, {}, 0));
  CHECK_FALSE(remembers({}, {1e-3}, 0));
}

TEST_CASE("a median stands against outliers and an empty block is no time") {
  CHECK(median({3, 1, 1000, 2, 2}) == 2);
  CHECK(median({1, 3}) == 2);
  CHECK(median({}) == 0);
  CHECK(spread({1, 1, 1, 1, 100}) == 0);
  CHECK_FALSE(clear_case({1e-3, 0.02}, {1e-4, 1e-4}, 0).has_value());  // too few calls
}

}  // namespace
}  // namespace khost::judge
