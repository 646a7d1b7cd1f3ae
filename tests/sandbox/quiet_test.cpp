// Silence while something is timed.
#include "sandbox/jail/quiet.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "sandbox/jail/jail.h"
#include "sandbox/jail/patience.h"
#include "sandbox/jail/tree.h"
#include "tests/sandbox/jail_kit.h"

using namespace khost::sandbox;

namespace {

bool comes_to(pid_t pid, bool stopped) {
  for (int i = 0; i < 500; i++) {
    if ((state_of(pid) == 'T') == stopped) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace

TEST_CASE("a process that goes on again although something is timed is stopped again, and continued at the end") {
  const pid_t pid = fork();
  if (pid == 0) {
    while (true) {
      pause();
    }
  }
  {
    Quiet quiet(0, 0);
    CHECK(comes_to(pid, true));
    for (int i = 0; i < 3; i++) {
      kill(pid, SIGCONT);  // as a timer of its own would
      REQUIRE(comes_to(pid, false));
      quiet.stop_new_processes();
      CHECK(comes_to(pid, true));
    }
  }
  CHECK(comes_to(pid, false));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_CASE("time in which something is timed does not count for the limits of what stands meanwhile") {
  const Patience patience(0.2);
  {
    const Quiet quiet(0, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    CHECK_FALSE(patience.over());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  CHECK(patience.over());
  CHECK(Patience(1).left_s() > 0.9);
  CHECK(Patience(0).left_ms() == 0);
}

TEST_CASE("a build that stands because something is timed is not too late") {
  JailSpec spec = khost::tests::shell("sleep 0.5; echo built");
  Output output;
  std::thread build([&] { output = run_in_jail(spec, "", 1.5, 100).value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  {
    const Quiet quiet(0, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  }
  build.join();
  CHECK(output.out == "built\n");
  CHECK_FALSE(output.exit.timed_out);
}

TEST_CASE(
    "a shell's process that lets itself be continued while something is timed is killed, and a patient one is not") {
  const pid_t host = fork();
  if (host == 0) {
    const pid_t jail = fork();
    if (jail == 0) {
      prctl(PR_SET_NAME, "bwrap");
      if (fork() == 0) {
        while (true) {
          pause();
        }
      }
      if (fork() == 0) {
        while (true) {
        }
      }
      while (true) {
        pause();
      }
    }
    while (true) {
      pause();
    }
  }
  const auto children = [](pid_t pid) { return pid > 0 ? children_of(pid) : std::vector<pid_t>(); };
  const auto jail = [&] {
    const std::vector<pid_t> found = children(host);
    return found.empty() ? 0 : found.front();
  };
  for (int i = 0; i < 500 && children(jail()).size() < 2; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const std::vector<pid_t> both = children(jail());
  REQUIRE(both.size() == 2);
  {
    Quiet quiet(0, host);
    for (int i = 0; i < 200 && state_of(both[1]) != 'Z'; i++) {
      kill(both[1], SIGCONT);  // as a signal that it ordered would
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      quiet.stop_new_processes();
    }
    CHECK(state_of(both[1]) == 'Z');
    CHECK(comes_to(both[0], true));
  }
  CHECK(comes_to(both[0], false));
  for (const pid_t pid : {both[0], both[1], jail(), host}) {
    kill(pid, SIGKILL);
  }
  waitpid(host, nullptr, 0);
}
