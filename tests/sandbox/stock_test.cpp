#include "sandbox/judge/stock.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>

using khost::Failure;
using khost::Result;
using khost::judge::Stock;
using Steady = std::chrono::steady_clock;

namespace {

double since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

bool within(double most_s, const std::function<bool()>& holds) {
  const auto begin = Steady::now();
  while (!holds() && since(begin) < most_s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return holds();
}

}  // namespace

TEST_CASE("a stock makes nothing before it is asked, then keeps as many as it was told") {
  std::atomic<int> made{0};
  Stock<std::unique_ptr<int>> stock(2, 3, [&]() -> Result<std::unique_ptr<int>> {
    return std::make_unique<int>(made++);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(made == 0);
  Result<std::unique_ptr<int>> first = stock.take(60);
  REQUIRE(first);
  CHECK(within(60, [&] { return made == 3; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(made == 3);  // the one that was taken, and two that stand ready
  REQUIRE(stock.take(60));
  CHECK(within(60, [&] { return made == 4; }));
}

TEST_CASE("whoever waits on an empty stock is served before its patience ends, or is told") {
  std::atomic<bool> slow{true};
  Stock<int> stock(0, 2, [&]() -> Result<int> {
    while (slow) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return 7;
  });
  Result<int> late = stock.take(0.05);
  REQUIRE_FALSE(late);
  CHECK(late.failure().code == "timeout");
  slow = false;
  Result<int> taken = stock.take(60);
  REQUIRE(taken);
  CHECK(*taken == 7);
}

TEST_CASE("what cannot be made is said to who waits, and the next take tries again") {
  std::atomic<int> tries{0};
  Stock<int> stock(2, 1, [&]() -> Result<int> {
    if (++tries == 1) {
      return Failure{"no room", "limit"};
    }
    return 1;
  });
  Result<int> first = stock.take(60);
  REQUIRE_FALSE(first);
  CHECK(first.failure().message == "no room");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(tries == 1);  // nobody waits: a device that is full is left alone
  CHECK(stock.take(60));
}
