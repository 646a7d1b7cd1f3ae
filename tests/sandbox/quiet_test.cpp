// Silence while something is timed.
#include "sandbox/quiet.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "sandbox/jail/tree.h"

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
