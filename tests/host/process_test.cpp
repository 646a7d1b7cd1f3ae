#include "host/process.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

using namespace khost;

TEST_CASE("a program's code and its output on both streams come back") {
  auto result = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, {});
  REQUIRE(result);
  CHECK(result->code == 3);
  CHECK(result->output == "out\nerr\n");
  CHECK(run_program({"sh", "-c", "kill -9 $$"}, {})->code == 128 + 9);
}

TEST_CASE("a program that cannot be started is a failure") {
  auto result = run_program({"no-such-program-here"}, {});
  REQUIRE_FALSE(static_cast<bool>(result));
  CHECK(result.failure().code == "io");
  CHECK(run_program({}, {}).failure().code == "bad_input");
}

TEST_CASE("a program that hangs is killed with its children when its time is over") {
  ProgramOptions options;
  options.timeout_s = 0.2;
  auto result = run_program({"sh", "-c", "sleep 30 & sleep 30"}, options);
  REQUIRE(result);
  CHECK(result->code == 124);
  CHECK(result->wall_s < 5);
}

TEST_CASE("output beyond the limit is dropped, not kept") {
  ProgramOptions options;
  options.output_bytes = 100;
  auto result = run_program({"sh", "-c", "head -c 1000000 /dev/zero"}, options);
  REQUIRE(result);
  CHECK(result->code == 0);
  CHECK(result->output.size() == 100);
}

TEST_CASE("another thread can stop a program") {
  auto stop = std::make_shared<ProgramStop>();
  std::thread stopper([stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop->ask();
  });
  auto result = run_program({"sleep", "30"}, {}, stop);
  stopper.join();
  REQUIRE(result);
  CHECK(result->code == 128 + 9);
  CHECK(result->wall_s < 5);
}

TEST_CASE("a program that was stopped before its start never starts") {
  auto stop = std::make_shared<ProgramStop>();
  stop->ask();
  auto result = run_program({"sleep", "30"}, {}, stop);
  REQUIRE_FALSE(static_cast<bool>(result));
  CHECK(result.failure().code == "cancelled");
}

TEST_CASE("a program that is talked to answers what it is told, and its descriptors close with its starter's") {
  auto cat = start_talking({"/bin/cat"});
  REQUIRE(cat);
  REQUIRE(write(cat->to, "hello", 5) == 5);
  close(cat->to);
  char text[16] = {};
  CHECK(read(cat->from, text, sizeof text) == 5);
  CHECK(std::string(text) == "hello");
  CHECK(read(cat->from, text, sizeof text) == 0);  // no copy of the pipe's other end is open anywhere
  close(cat->from);
  int status = 0;
  CHECK(waitpid(cat->pid, &status, 0) == cat->pid);
  CHECK(status == 0);
  CHECK(start_talking({"/no/such/program"}).failure().code == "io");
}
