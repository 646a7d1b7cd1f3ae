#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sandbox/judge/cuda/device_priority.h"

using khost::judge::gpu::DevicePriority;
using Steady = std::chrono::steady_clock;

namespace {
double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}
}  // namespace

TEST_CASE("who starts a subject lets all pass that want to time") {
  DevicePriority order;
  DevicePriority::Claim first(order), second(order);
  first.take();
  first.take();  // a claim is one, however often it is taken
  second.take();
  std::atomic<bool> passed{false};
  std::thread start([&] {
    order.wait_until_unclaimed(60);
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(passed);
  first.drop();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(passed);
  second.drop();
  start.join();
  CHECK(passed);
}

TEST_CASE("who starts a subject does not wait for ever, and not at all when nobody times") {
  DevicePriority order;
  auto begin = Steady::now();
  order.wait_until_unclaimed(60);
  CHECK(since(begin) < 5);
  {
    DevicePriority::Claim claim(order);
    claim.take();
    begin = Steady::now();
    order.wait_until_unclaimed(0.1);
    CHECK(since(begin) >= 0.09);
    CHECK(since(begin) < 5);
  }
  begin = Steady::now();
  order.wait_until_unclaimed(60);  // the claim went with its owner
  CHECK(since(begin) < 5);
}
