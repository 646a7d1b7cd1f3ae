#include "sandbox/judge/service/pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "host/base/defer.h"

using khost::Failure;
using khost::Result;
using khost::judge::Pool;
using Steady = std::chrono::steady_clock;

namespace {

double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

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
  Pool<std::unique_ptr<int>> stock("a number", 2, 3,
                                   [&]() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(made++); });
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
  Pool<int> stock("a number", 0, 2, [&]() -> Result<int> {
    while (slow) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return 7;
  });
  const khost::Defer release([&] { slow = false; });  // before the stock waits for its makers
  Result<int> late = stock.take(0.05);
  REQUIRE_FALSE(late);
  CHECK(late.failure().code == "timeout");
  CHECK(late.failure().message.find("a number was not ready within 0 s") == 0);
  slow = false;
  Result<int> taken = stock.take(60);
  REQUIRE(taken);
  CHECK(*taken == 7);
}

TEST_CASE("what cannot be made is said to who waits, and the next take tries again") {
  std::atomic<int> tries{0};
  Pool<int> stock("a number", 2, 1, [&]() -> Result<int> {
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

TEST_CASE("an exception while making is a failure with its words, and the process goes on") {
  Pool<int> stock("a number", 1, 1, []() -> Result<int> { throw std::runtime_error("the disk is full"); });
  Result<int> taken = stock.take(60);
  REQUIRE_FALSE(taken);
  CHECK(taken.failure().code == "host");
  CHECK(taken.failure().message == "a number could not be made: the disk is full");
}

TEST_CASE("one maker's failure is not that of who waits while another maker is about to succeed") {
  std::atomic<int> begun{0};
  Pool<int> stock("a number", 1, 2, [&]() -> Result<int> {
    if (begun++ == 0) {
      return within(60, [&] { return begun >= 2; }) ? Result<int>(Failure{"no room", "limit"}) : 1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // ends after the failure
    return 2;
  });
  Result<int> taken = stock.take(60);
  REQUIRE_MESSAGE(taken, taken.failure().message);
  CHECK(*taken == 2);
}

TEST_CASE("a stock that ends waits for what is being made") {
  std::atomic<int> begun{0}, made{0};
  {
    Pool<int> stock("a number", 3, 3, [&]() -> Result<int> {
      begun++;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      return ++made;
    });
    stock.begin();
    CHECK(within(60, [&] { return begun == 3; }));
  }
  CHECK(made == 3);
}
