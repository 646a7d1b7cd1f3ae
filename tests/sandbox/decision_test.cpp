// The comparison with the baselines as a state machine, fed with blocks that no process ever ran.
#include "sandbox/judge/evaluation/decision.h"

#include <doctest/doctest.h>

#include "sandbox/judge/evaluation/limits.h"

using namespace khost;
using namespace khost::judge;

namespace {

constexpr double kSlack_s = 1e-5;

// A block whose median is `seconds`, with a spread of half a percent.
std::vector<double> block(double seconds) {
  std::vector<double> result;
  for (int i = -5; i <= 5; i++) {
    result.push_back(seconds * (1 + 0.001 * i));
  }
  return result;
}

Baseline cached(double seconds, bool steady = true) {
  Baseline result = baseline_of({seconds, seconds, seconds});
  result.steady = steady;
  return result;
}

Decision made(double candidate_s, double baseline_s, Decision::Rules rules = {}, bool steady = true) {
  Decision decision(rules, kSlack_s);
  decision.first_block(block(candidate_s), steady);
  decision.baseline("eager", cached(baseline_s));
  return decision;
}

Verdict written(const Decision& decision) {
  Verdict verdict;
  decision.write_times(verdict);
  decision.write(verdict);
  verdict.pass();
  return verdict;
}

// Brackets of one baseline until it is settled, each with these two times; how many it took.
int take_brackets(Decision& decision, double candidate_s, double baseline_s) {
  int taken = 0;
  decision.before("eager", baseline_s);
  while (decision.is_open("eager")) {
    decision.candidate_block(candidate_s);
    decision.after("eager", baseline_s);
    taken++;
    REQUIRE(taken <= kMostBrackets);
  }
  return taken;
}

}  // namespace

TEST_CASE("a clear case is settled by the cached reading, either way") {
  const Decision fast = made(1e-3, 2e-3), slow = made(2e-3, 1e-3);
  CHECK(fast.settled("eager") == Settled::clear);
  CHECK(fast.open().empty());
  CHECK(fast.faster("eager"));
  CHECK(slow.settled("eager") == Settled::clear);
  CHECK_FALSE(slow.faster("eager"));
  const Verdict verdict = written(fast);
  CHECK(verdict.speed() == Speed::measured);
  CHECK(verdict.is_faster("eager"));
  CHECK(verdict.times.at("eager_s") == 2e-3);
  CHECK(verdict.speedup.at("eager") == doctest::Approx(2e-3 / (1e-3 + kSlack_s)));
  CHECK(verdict.evidence["brackets"]["eager"].empty());
}

TEST_CASE("no case is clear where the candidate or the baseline was not steady") {
  CHECK(made(1e-3, 2e-3, {}, false).is_open("eager"));
  Decision decision({}, kSlack_s);
  decision.first_block(block(1e-3), true);
  decision.baseline("eager", cached(2e-3, false));
  CHECK(decision.is_open("eager"));
  CHECK(take_brackets(decision, 1e-3, 2e-3) < kMostBrackets);
  CHECK(decision.faster("eager"));
  CHECK(decision.settled("eager") == Settled::brackets);
}

TEST_CASE("a close case takes brackets until the statistics decide") {
  Decision faster = made(1e-3, 1.08e-3);
  REQUIRE(faster.is_open("eager"));
  const int taken = take_brackets(faster, 1e-3, 1.15e-3);
  CHECK(taken >= 2);
  CHECK(faster.faster("eager"));
  CHECK(faster.brackets("eager").size() == static_cast<std::size_t>(taken));
  CHECK(written(faster).is_faster("eager"));

  Decision slower = made(1e-3, 1.04e-3);
  REQUIRE(slower.is_open("eager"));
  take_brackets(slower, 1e-3, 0.95e-3);
  CHECK_FALSE(slower.faster("eager"));
  CHECK(written(slower).speed() == Speed::measured);
}

TEST_CASE("what the last bracket leaves undecided is not faster, and the speed is measured") {
  Decision decision = made(1e-3, 1.06e-3);
  REQUIRE(decision.is_open("eager"));
  // Every other block of the candidate is on the other side of the threshold.
  decision.before("eager", 1.06e-3);
  for (int taken = 0; decision.is_open("eager"); taken++) {
    REQUIRE(taken < kMostBrackets);
    decision.candidate_block(taken % 2 == 0 ? 0.98e-3 : 1.03e-3);
    decision.after("eager", 1.06e-3);
  }
  CHECK(decision.settled("eager") == Settled::undecided);
  const Verdict verdict = written(decision);
  CHECK(verdict.evidence["undecided"] == Json({"eager"}));
  CHECK_FALSE(verdict.is_faster("eager"));
  CHECK(verdict.speed() == Speed::measured);
  CHECK(verdict.evidence["brackets"]["eager"].size() == static_cast<std::size_t>(kMostBrackets));
}

TEST_CASE("a block after is the next bracket's before") {
  Decision decision = made(1e-3, 1.06e-3);
  decision.before("eager", 1e-3);
  decision.candidate_block(1e-3);
  decision.after("eager", 4e-3);
  decision.candidate_block(1e-3);
  decision.after("eager", 1e-3);
  REQUIRE(decision.brackets("eager").size() == 2);
  // The root of 1 and 4 ms is 2 ms on both sides of the second block.
  CHECK(decision.brackets("eager")[0] == doctest::Approx(bracket(1e-3, 1e-3, 4e-3, kSlack_s)));
  CHECK(decision.brackets("eager")[1] == doctest::Approx(bracket(4e-3, 1e-3, 1e-3, kSlack_s)));
}

TEST_CASE("a baseline shorter than 20 slacks is unresolved however fast the candidate is, and nothing is faster") {
  for (const bool on_a_gpu : {false, true}) {
    Decision decision({on_a_gpu}, kSlack_s);
    decision.first_block(block(1e-5), true);
    decision.baseline("eager", cached(kResolved * kSlack_s * 0.99));
    decision.baseline("compile", cached(kResolved * kSlack_s * 10));
    CHECK(decision.settled("eager") == Settled::short_baseline);
    CHECK_FALSE(decision.faster("eager"));
    CHECK(decision.faster("compile"));
    CHECK(decision.open().empty());
    const Verdict verdict = written(decision);
    CHECK(verdict.correct());
    CHECK(verdict.speed() == Speed::unresolved);
    CHECK(verdict.speed_reason() == SpeedReason::short_baseline);
    CHECK_FALSE(verdict.is_faster("eager"));
    CHECK_FALSE(verdict.is_faster("compile"));
    CHECK(verdict.evidence["unresolved"] == Json::array({"eager"}));
  }
  CHECK(made(1e-5, kResolved * kSlack_s * 1.01).settled("eager") == Settled::clear);
}

TEST_CASE("a block beside settles only that the candidate is not faster, and only where the target has that rule") {
  Decision slow = made(1e-3, 1.04e-3, {true});
  REQUIRE(slow.wants_beside("eager"));
  slow.beside("eager", 0.98e-3);
  CHECK(slow.settled("eager") == Settled::beside);
  CHECK_FALSE(slow.faster("eager"));
  CHECK(written(slow).evidence["beside_s"]["eager"] == 0.98e-3);
  CHECK(written(slow).speed() == Speed::measured);

  Decision fast = made(1e-3, 1.08e-3, {true});
  fast.beside("eager", 1.5e-3);
  CHECK(fast.is_open("eager"));

  Decision cpu = made(1e-3, 1.04e-3);
  CHECK_FALSE(cpu.wants_beside("eager"));
  cpu.beside("eager", 0.98e-3);
  CHECK(cpu.is_open("eager"));
}

TEST_CASE("baselines share the candidate's blocks, and each is settled by itself") {
  Decision decision({}, kSlack_s);
  decision.first_block(block(1e-3), true);
  decision.baseline("eager", cached(1.07e-3));
  decision.baseline("compile", cached(1.06e-3));
  CHECK(decision.open() == std::vector<std::string>{"eager", "compile"});
  decision.before("eager", 1.3e-3);
  decision.before("compile", 1.04e-3);
  while (!decision.open().empty()) {
    decision.candidate_block(1e-3);
    for (const std::string& kind : decision.open()) {
      decision.after(kind, kind == "eager" ? 1.3e-3 : 1.04e-3);
    }
  }
  CHECK(decision.faster("eager"));
  CHECK_FALSE(decision.faster("compile"));
  CHECK(decision.brackets("eager").size() < decision.brackets("compile").size());
}

TEST_CASE("a task without one baseline is measured against the other, and without both is unresolved") {
  Decision one({}, kSlack_s);
  one.first_block(block(1e-3), true);
  one.baseline("eager", cached(2e-3));
  one.unavailable("compile", "it does not compile");
  const Verdict verdict = written(one);
  CHECK(verdict.speed() == Speed::measured);
  CHECK(verdict.is_faster("eager"));
  CHECK(verdict.faster.count("compile") == 0);
  CHECK(verdict.times.count("compile_s") == 0);
  CHECK(verdict.evidence["compile_unavailable"] == "it does not compile");

  Decision none({}, kSlack_s);
  none.first_block(block(1e-3), true);
  none.unavailable("eager", "it raises");
  none.unavailable("compile", "it does not compile");
  CHECK(written(none).speed() == Speed::unresolved);
  CHECK(written(none).speed_reason() == SpeedReason::no_baseline);
}

TEST_CASE("a baseline that is lost between its brackets leaves the speed unresolved") {
  Decision decision = made(1e-3, 1.07e-3);
  decision.before("eager", 1.2e-3);
  decision.candidate_block(1e-3);
  decision.after("eager", 1.2e-3);
  decision.lost("eager", "its process ended");
  CHECK(decision.open().empty());
  const Verdict verdict = written(decision);
  CHECK(verdict.speed_reason() == SpeedReason::no_baseline);
  CHECK_FALSE(verdict.is_faster("eager"));
  CHECK(verdict.evidence["eager_missed"] == "its process ended");
  // What is settled stays so.
  Decision settled = made(1e-3, 2e-3);
  settled.lost("eager", "too late");
  CHECK(settled.faster("eager"));
}

TEST_CASE("blocks of a baseline that is settled, or without a block before, change nothing") {
  Decision decision = made(1e-3, 1.07e-3);
  decision.candidate_block(1e-3);
  decision.after("eager", 1.2e-3);
  CHECK(decision.brackets("eager").empty());
  Decision clear = made(1e-3, 2e-3);
  clear.before("eager", 1e-4);
  clear.candidate_block(1e-3);
  clear.after("eager", 1e-4);
  CHECK(clear.faster("eager"));
  CHECK_THROWS_AS((void)clear.faster("compile"), std::logic_error);
}

TEST_CASE("what was decided pays nothing once the candidate fails in a later block") {
  Verdict verdict;
  const Decision decision = made(1e-3, 2e-3);
  decision.write_times(verdict);
  decision.write(verdict);
  verdict.fail(Outcome::timeout, Stage::time, Reason::call, "a call did not come back");
  verdict.pass();
  CHECK_FALSE(verdict.correct());
  CHECK_FALSE(verdict.is_faster("eager"));
  CHECK(verdict.speed() == Speed::none);
}
