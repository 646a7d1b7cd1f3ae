#include "trainer/learn/gae.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace khost::trainer;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  std::vector<uint8_t> mask;
  std::vector<float> rewards, values, advantages, returns;

  void run(double lambda, double turn = 1) {
    advantages.assign(mask.size(), 7);
    returns.assign(mask.size(), 7);
    gae(mask, rewards, values, {.gamma = 1, .lambda = lambda, .turn = turn}, advantages, returns);
  }
};

Case golden(float masked) {
  return {{1, 1, 0, 0, 1, 1, 0, 1},
          {0, 0, masked, masked, 0, 0, masked, 2},
          {.5f, .6f, masked, masked, .7f, .8f, masked, .9f},
          {},
          {}};
}

void check_actions(const Case& c, const std::vector<float>& found, const std::vector<double>& expected) {
  size_t next = 0;
  for (size_t t = 0; t < c.mask.size(); ++t) {
    if (c.mask[t] != 0) {
      CHECK(found[t] == doctest::Approx(expected[next++]).epsilon(1e-6));
    } else {
      CHECK(found[t] == 0);
    }
  }
  CHECK(next == expected.size());
}

}  // namespace

TEST_CASE("GAE of the golden trajectory, whatever stands at observation tokens") {
  for (const float masked : {0.0f, 9.0f, kNan}) {
    Case c = golden(masked);
    c.run(0.95);
    check_actions(c, c.advantages, {1.266944, 1.228362, 1.187750, 1.145, 1.1});
    check_actions(c, c.returns, {1.766944, 1.828362, 1.887750, 1.945, 2.0});
    c.run(1);
    check_actions(c, c.advantages, {1.5, 1.4, 1.3, 1.2, 1.1});
    check_actions(c, c.returns, {2, 2, 2, 2, 2});
    c.run(0);
    check_actions(c, c.advantages, {.1, .1, .1, .1, 1.1});
    check_actions(c, c.returns, {.6, .7, .8, .9, 2.0});
  }
}

// By hand from delta = .1, .1, .1, .1, 1.1 and lambda 1 within a turn, `turn` behind the second and the fourth action:
// with turn = .5 from the last to the first A = 1.1, .1 + .5 * 1.1, .1 + .65, .1 + .5 * .75, .1 + .475; with lambda .9
// the factors are .45 and .9.
TEST_CASE("with lambda_turn a turn is given less of what later turns earn") {
  for (const float masked : {0.0f, kNan}) {
    Case c = golden(masked);
    c.run(1, .5);
    check_actions(c, c.advantages, {.575, .475, .75, .65, 1.1});
    check_actions(c, c.returns, {1.075, 1.075, 1.45, 1.45, 2.0});
    c.run(.9, .5);
    check_actions(c, c.advantages, {.4473775, .385975, .6355, .595, 1.1});
    c.run(1, 0);
    check_actions(c, c.advantages, {.2, .1, .2, .1, 1.1});
    check_actions(c, c.returns, {.7, .7, .9, .9, 2.0});
    c.run(.95, 1);
    check_actions(c, c.advantages, {1.266944, 1.228362, 1.187750, 1.145, 1.1});
  }
}

TEST_CASE("without observations lambda_turn says nothing") {
  Case plain{{0, 1, 1, 1}, {0, 0, 0, 1}, {0, .2f, .4f, .6f}, {}, {}}, turns = plain;
  plain.run(.9);
  turns.run(.9, .3);
  CHECK(plain.advantages == turns.advantages);
  CHECK(plain.returns == turns.returns);
}

TEST_CASE("the credit of actions does not decay over a tool's output") {
  for (const size_t observed : {size_t{20}, size_t{200}}) {
    Case c;
    c.mask = {1, 1, 1};
    c.mask.resize(3 + observed, 0);
    c.mask.insert(c.mask.end(), {1, 1, 1});
    c.rewards.assign(c.mask.size(), 0);
    c.rewards.back() = 3;
    c.values.assign(c.mask.size(), 1);
    c.run(0.95);
    CHECK(c.advantages[0] == doctest::Approx(1.5476).epsilon(1e-4));
    CHECK(c.advantages[1] == doctest::Approx(1.6290).epsilon(1e-4));
    CHECK(c.advantages[2] == doctest::Approx(1.7147).epsilon(1e-4));
  }
}

TEST_CASE("whitening uses the unbiased variance of the action tokens only") {
  Case c = golden(kNan);
  c.run(0.95);
  for (size_t t = 0; t < c.mask.size(); ++t) {
    c.advantages[t] = c.mask[t] != 0 ? c.advantages[t] : kNan;
  }
  const Moments before = whiten(c.mask, c.advantages, Whitening::full);
  CHECK(before.mean == doctest::Approx(1.185611).epsilon(1e-5));
  const std::vector<double> expected = {1.2323, .6477, .0324, -.6153, -1.2971};
  size_t next = 0;
  for (size_t t = 0; t < c.mask.size(); ++t) {
    if (c.mask[t] != 0) {
      CHECK(std::abs(c.advantages[t] - expected[next++]) < 1e-4);
    }
  }
}

TEST_CASE("whitening divides by no less than its floor") {
  Case plain = golden(kNan), floored = golden(kNan), low = golden(kNan);
  for (Case* c : {&plain, &floored, &low}) {
    c->run(0.95);
  }
  const Moments before = whiten(plain.mask, plain.advantages, Whitening::full);
  whiten(low.mask, low.advantages, Whitening::full, {}, before.std / 2);
  whiten(floored.mask, floored.advantages, Whitening::full, {}, 4 * before.std);
  for (size_t t = 0; t < plain.mask.size(); ++t) {
    if (plain.mask[t] != 0) {
      CHECK(low.advantages[t] == plain.advantages[t]);
      CHECK(floored.advantages[t] == doctest::Approx(plain.advantages[t] / 4).epsilon(1e-4));
    }
  }
}

TEST_CASE("the length-adaptive lambda stays within 0 and 1") {
  CHECK(adaptive_lambda(0.05, 3) == doctest::Approx(0));
  CHECK(adaptive_lambda(0.05, 100) == doctest::Approx(0.80));
  CHECK(adaptive_lambda(0.05, 2000) == doctest::Approx(0.99));
}
