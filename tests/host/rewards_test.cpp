#include <doctest/doctest.h>

#include <cmath>

#include "host/rewards/curve.h"
#include "host/rewards/schedule.h"

using namespace khost;

namespace {

// Episodes of these tests are plain numbers.
ScoreFunction times(double factor) {
  return [factor](EpisodeRef episode) -> Result<Scored> {
    return Scored{factor * *static_cast<const double*>(episode), {}};
  };
}

ScoreFunction fails(const std::string& code) {
  return [code](EpisodeRef) -> Result<Scored> { return Failure{"score.lua:3: no such field", code}; };
}

RewardScheme scheme(const std::string& name, std::vector<RewardTerm> terms, RewardRange range = {}) {
  RewardScheme out;
  out.name = name;
  out.terms = std::move(terms);
  out.range = range;
  return out;
}

RewardSchedule schedule(std::map<int64_t, RewardScheme> schemes) {
  auto made = RewardSchedule::create(std::move(schemes));
  REQUIRE(made);
  return std::move(made).value();
}

}  // namespace

TEST_CASE("curves hit their ends and hold them") {
  CHECK(Curve::constant(2).at(100) == 2);
  auto linear = Curve::linear(1, 0, 10);
  REQUIRE(linear);
  CHECK(linear->at(-5) == 1);
  CHECK(linear->at(0) == 1);
  CHECK(linear->at(4) == doctest::Approx(0.6));
  CHECK(linear->at(10) == 0);
  CHECK(linear->at(99) == 0);
  auto cosine = Curve::cosine(0, 1, 10);
  REQUIRE(cosine);
  CHECK(cosine->at(5) == doctest::Approx(0.5));
  CHECK(cosine->at(1) == doctest::Approx((1 - std::cos(M_PI / 10)) / 2));
  CHECK(cosine->at(10) == 1);
  auto steps = Curve::steps({{0, 1}, {50, 0.5}});
  REQUIRE(steps);
  CHECK(steps->at(49) == 1);
  CHECK(steps->at(50) == 0.5);
}

TEST_CASE("curves that mean nothing are refused") {
  CHECK_FALSE(static_cast<bool>(Curve::linear(0, 1, 0)));
  CHECK_FALSE(static_cast<bool>(Curve::cosine(NAN, 1, 5)));
  CHECK_FALSE(static_cast<bool>(Curve::steps({})));
}

TEST_CASE("weighted terms follow the step and report their parts") {
  auto rewards = schedule(
      {{0, scheme("mixed", {{"a", Curve::constant(1), times(1)}, {"b", Curve::linear(1, 0, 10).value(), times(10)}})}});
  double episode = 2;
  auto early = rewards.score(&episode, 0);
  REQUIRE(early);
  CHECK(early->total == 22);
  CHECK(early->parts == std::map<std::string, double>{{"a", 2}, {"b", 20}});
  CHECK(rewards.score(&episode, 10)->total == 2);
  CHECK(rewards.weights(5) == std::map<std::string, double>{{"a", 1}, {"b", 0.5}});
  CHECK(rewards.counts().scored == 2);
}

TEST_CASE("schemes change at their step") {
  auto rewards = schedule({{0, scheme("first", {{"x", Curve::constant(1), times(1)}})},
                           {20, scheme("second", {{"x", Curve::constant(1), times(-1)}})}});
  double episode = 3;
  CHECK(rewards.scheme(19).name == "first");
  CHECK(rewards.score(&episode, 19)->total == 3);
  CHECK(rewards.scheme(20).name == "second");
  CHECK(rewards.score(&episode, 20)->total == -3);
}

TEST_CASE("a scheme that raises or declines voids the episode and is counted, never scored") {
  double episode = 1;
  auto raising = schedule({{0, scheme("bad", {{"x", Curve::constant(0), fails("raised")}})}});
  auto raised = raising.score(&episode, 0);
  REQUIRE_FALSE(static_cast<bool>(raised));
  CHECK(raised.failure().code == "raised");
  CHECK(raising.counts().raised == 1);
  CHECK(raising.counts().scored == 0);
  CHECK(raising.counts().last_message == "score.lua:3: no such field");
  auto declining = schedule({{0, scheme("void", {{"x", Curve::constant(1), fails("void")}})}});
  CHECK(declining.score(&episode, 0).failure().code == "void");
  CHECK(declining.counts().void_ == 1);
}

TEST_CASE("a total outside the range voids, or is moved to the border on request") {
  double episode = 7;
  auto strict = schedule({{0, scheme("s", {{"x", Curve::constant(1), times(1)}}, {-1, 3})}});
  auto scored = strict.score(&episode, 0);
  REQUIRE_FALSE(static_cast<bool>(scored));
  CHECK(scored.failure().code == "range");
  CHECK(scored.failure().message == "scheme 's' returned 7, legal is -1 to 3");
  CHECK(strict.counts().range == 1);
  auto clipped = scheme("c", {{"x", Curve::constant(1), times(1)}}, {-1, 3});
  clipped.clip = true;
  CHECK(schedule({{0, clipped}}).score(&episode, 0)->total == 3);
  episode = NAN;
  CHECK(schedule({{0, clipped}}).score(&episode, 0).failure().code == "range");
}

TEST_CASE("schedules that cannot work are refused when they are made") {
  CHECK_FALSE(static_cast<bool>(RewardSchedule::create({})));
  CHECK_FALSE(static_cast<bool>(RewardSchedule::create({{0, scheme("empty", {})}})));
  RewardTerm term{"x", Curve::constant(1), times(1)};
  CHECK_FALSE(static_cast<bool>(RewardSchedule::create({{0, scheme("twice", {term, term})}})));
  CHECK_FALSE(static_cast<bool>(RewardSchedule::create({{0, scheme("range", {term}, {3, -1})}})));
}
