#include "trainer/learn/batch.h"

#include <doctest/doctest.h>

#include <limits>

#include "trainer/learn/advantages.h"

using namespace khost::trainer;

namespace {

Episode episode(std::vector<uint8_t> mask, double reward) {
  Episode e;
  e.mask = std::move(mask);
  e.tokens.assign(e.mask.size(), 1);
  e.reward = reward;
  return e;
}

}  // namespace

TEST_CASE("pack refuses what would be trained wrongly and names the episode") {
  Episode e = episode({0, 1}, 1);
  e.mask[0] = 1;
  CHECK(Batch::pack({e}, {}).failure().message.find("episode 1") != std::string::npos);
  e = episode({0, 1}, std::numeric_limits<double>::quiet_NaN());
  CHECK_FALSE(Batch::pack({e}, {}));
  e = episode({0, 1, 1}, 0);
  e.logprobs = {-1, -1, -1, -1};
  CHECK_FALSE(Batch::pack({e}, {}));
}

TEST_CASE("the sampler's log-probs may come one an action") {
  Episode e = episode({0, 1, 0, 1}, 0);
  e.logprobs = {-1, -2};
  const Batch batch = Batch::pack({e}, {}).value();
  CHECK(batch.column(Column::sampler_logp) == std::vector<float>{0, -1, 0, -2});
}

TEST_CASE("a reward goes to the last action, also when an observation follows it") {
  Batch batch = Batch::pack({episode({0, 1, 1, 1, 0}, 3)}, {}).value();
  batch.column(Column::values) = {0, 1, 1, 1, 0};
  AdvantageOptions options;
  options.whiten = Whitening::none;
  REQUIRE(fill_advantages(batch, options));
  CHECK(batch.column(Column::advantages)[1] == doctest::Approx(1.805));
  CHECK(batch.column(Column::advantages)[2] == doctest::Approx(1.9));
  CHECK(batch.column(Column::advantages)[3] == doctest::Approx(2.0));
}

TEST_CASE("micro-batches hold every trajectory with an action once, within the budget") {
  std::vector<Episode> episodes;
  for (size_t i = 0; i < 20; ++i) {
    std::vector<uint8_t> mask(3 + i * 7 % 11, 0);
    mask[1] = i % 5 != 0;
    episodes.push_back(episode(mask, 0));
  }
  const Batch batch = Batch::pack(episodes, {.tokens = 30, .temperature = 1}).value();
  int64_t seen = 0;
  for (const std::vector<int64_t>& part : batch.micro_batches()) {
    CHECK(static_cast<int64_t>(part.size()) * (batch.end(part[0]) - batch.begin(part[0])) <= 30);
    seen += static_cast<int64_t>(part.size());
  }
  CHECK(seen == 16);
  CHECK(batch.nonempty() == 16);
}

TEST_CASE("split visits every trajectory once an epoch and carries the columns") {
  std::vector<Episode> episodes;
  for (int i = 0; i < 7; ++i) {
    episodes.push_back(episode({0, 1}, i));
  }
  Batch batch = Batch::pack(episodes, {}).value();
  batch.column(Column::advantages).assign(14, 2);
  const std::vector<Batch> parts = batch.split(3, 2, 5);
  REQUIRE(parts.size() == 6);
  double rewards = 0;
  for (const Batch& part : parts) {
    CHECK(part.column(Column::advantages).size() == static_cast<size_t>(part.tokens()));
    for (int64_t i = 0; i < part.trajectories(); ++i) {
      rewards += part.reward(i);
    }
  }
  CHECK(rewards == 42);
}

TEST_CASE("explained variance: 0 for a constant critic, 1 for one that knows the outcome") {
  Batch batch = Batch::pack({episode({0, 1, 1}, 1), episode({0, 1, 1}, 3)}, {}).value();
  batch.column(Column::mc_returns) = {0, 1, 1, 0, 3, 3};
  batch.column(Column::values) = {0, 2, 2, 0, 2, 2};
  CHECK(explained_variance(batch, Column::mc_returns) == doctest::Approx(0).epsilon(1e-4));
  batch.column(Column::values) = {0, 1, 1, 0, 3, 3};
  CHECK(explained_variance(batch, Column::mc_returns) == doctest::Approx(1).epsilon(1e-4));
}

TEST_CASE("group advantages are rewards minus the group's mean") {
  Episode a = episode({0, 1}, 1);
  Episode b = episode({0, 1}, 3);
  a.group = b.group = 4;
  Batch batch = Batch::pack({a, b}, {}).value();
  AdvantageOptions options;
  options.source = AdvantageSource::group;
  options.whiten = Whitening::none;
  REQUIRE(fill_advantages(batch, options));
  CHECK(batch.column(Column::advantages) == std::vector<float>{0, -1, 0, 1});
}
