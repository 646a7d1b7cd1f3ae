// What a fork that does not come is blamed on.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <thread>

#include "sandbox/jail/quiet.h"
#include "sandbox/jail/tree.h"
#include "tests/sandbox/zygote_fixture.h"

using namespace khost;

TEST_CASE("a zygote that stands because something is timed gives a child afterwards") {
  const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
  if (!zygote) {
    return;
  }
  auto quiet = std::make_unique<sandbox::Quiet>(0, 0);
  const auto stands = [&] { return sandbox::state_of(zygote->pid()) == 'T'; };
  for (int i = 0; i < 200 && !stands(); i++) {  // on a busy machine a signal takes its time
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(stands());
  std::thread timing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1800));  // several looks
    quiet.reset();
  });
  const auto begin = std::chrono::steady_clock::now();
  const Result<judge::Child> child = zygote->spawn();
  CHECK(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(1500));
  timing.join();
  REQUIRE_MESSAGE(child, child.failure().message);
  CHECK(zygote->alive());
}

TEST_CASE("a zygote that was stopped or killed is gone at once, and is not waited for") {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    CAPTURE(signal);
    const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
    if (!zygote) {
      return;
    }
    REQUIRE(zygote->spawn());
    REQUIRE(kill(zygote->pid(), signal) == 0);
    const auto begin = std::chrono::steady_clock::now();
    const Result<judge::Child> child = zygote->spawn();
    REQUIRE_FALSE(child);
    CHECK(child.failure().code == "gone");
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    CHECK_FALSE(zygote->alive());  // now: who asks next begins another one
  }
}
