#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "sandbox/jail/jail.h"
#include "tests/sandbox/jail_kit.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::tests;

TEST_CASE("a fork bomb stays within its limit and the host stays usable") {
  JailSpec spec = shell("bomb() { bomb | bomb & }; bomb; sleep 1; echo survived");
  spec.limits.processes = 30;
  Result<Jail> jail = Jail::start(spec);
  REQUIRE(bool(jail));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::string outside = out_of(shell("(echo fine)"));
  CHECK(outside == "fine\n");
  jail->freeze();
  jail->thaw();
  jail->kill();
  const Exit exit = jail->wait(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  CHECK(exit.signal == SIGKILL);
}

TEST_CASE("the process limit holds for each jail by itself") {
  JailSpec spec = shell(
      "exec perl -e 'for (1..40) { my $p = fork; if (!defined $p) { print \"refused $!\\n\"; last } "
      "if (!$p) { sleep 5; exit } }'");
  spec.limits.processes = 20;
  check_both(spec, [](const std::string& text) { CHECK(text == "refused Resource temporarily unavailable\n"); });
}

TEST_CASE("memory, file size, descriptors and processor time are limited") {
  JailSpec spec = shell("perl -e 'my $x = \"a\" x 400_000_000; print length $x' || echo no memory");
  spec.limits.memory_bytes = 256 << 20;
  CHECK(contains(out_of(spec), "no memory"));
  spec = shell("dd if=/dev/zero of=/tmp/x bs=1M count=5; echo $?");
  spec.limits.file_bytes = 1 << 20;
  CHECK(!contains(out_of(spec), "\n0\n"));
  spec = shell("ulimit -n; ulimit -c; ulimit -u");
  spec.limits.open_files = 50;
  CHECK(out_of(spec) == "50\n0\n64\n");
  spec = shell("while :; do :; done");
  spec.limits.cpu_s = 1;
  const Output output = run(spec);
  CHECK(output.exit.signal == SIGXCPU);
  CHECK(output.exit.cpu_s >= 0.9);
  CHECK(output.exit.cpu_s < 2);
}

TEST_CASE("the folders that a jail writes to hold so many files and no more" * doctest::skip(geteuid() != 0)) {
  for (const char* folder : {"/tmp", "/dev/shm"}) {
    JailSpec spec = shell("cd " + std::string(folder) +
                          "; perl -e 'for (1..2000) { mkdir $_ or do { print qq($_ $!); last } }'; rmdir 1; : > last");
    spec.limits.tmp_files = 1000;
    const Output output = run(spec);
    CHECK(contains(output.out, "No space left on device"));
    CHECK(std::stoi(output.out) > 900);
    CHECK(std::stoi(output.out) <= 1000);
    CHECK(output.exit.code == 0);
  }
}

TEST_CASE("several processes together do not get more memory than the jail" * doctest::skip(geteuid() != 0)) {
  JailSpec spec =
      shell("for i in 1 2 3 4; do perl -e 'my $x = \"a\" x 100_000_000; sleep 1; print q(he), qq(ld\\n)' & done; wait");
  spec.limits.memory_bytes = 250 << 20;
  spec.limits.processes = 16;
  const bool groups =
      access("/sys/fs/cgroup/memory/cgroup.procs", W_OK) == 0 || access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  if (!groups) {
    MESSAGE("no writable control groups here: only the limits of each process hold");
    return;
  }
  const std::string text = out_of(spec);
  size_t held = 0;
  for (size_t at = text.find("held"); at != std::string::npos; at = text.find("held", at + 1)) {
    ++held;
  }
  CHECK(held < 3);
}
