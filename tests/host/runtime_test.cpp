// The program as users meet it: exit codes, messages, signals, limits. Real processes of build/khost.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "host/host.h"

namespace {

namespace fs = std::filesystem;

struct Ended {
  int code = -1;
  std::string text;  // both streams
  double seconds = 0;
};

// Runs khost; with a signal, sends it as soon as the program has printed "ready".
Ended run_khost(std::vector<std::string> arguments, int signal = 0) {
  const std::string program = khost::executable_dir() + "/khost";
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    setenv("KHOST_ROOT", KHOST_SOURCE_DIR, 1);
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(ends[1]);
  Ended ended;
  std::array<char, 4096> block{};
  ssize_t n = 0;
  bool sent = false;
  while ((n = read(ends[0], block.data(), block.size())) > 0) {
    ended.text.append(block.data(), static_cast<size_t>(n));
    if (signal != 0 && !sent && ended.text.find("ready") != std::string::npos) {
      kill(child, signal);
      sent = true;
    }
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return ended;
}

std::string script(const std::string& name, const std::string& text) {
  const fs::path folder = fs::temp_directory_path() / ("khost-runtime-" + std::to_string(getuid()));
  fs::create_directories(folder);
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

bool has(const Ended& ended, const char* part) {
  return ended.text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("khost --help, --version and unknown commands") {
  const Ended help = run_khost({"--help"});
  CHECK(help.code == 0);
  CHECK(has(help, "usage: khost"));
  CHECK(has(help, "doctor       what this machine offers"));
  CHECK(has(help, "recipes/full_pipeline.lua  the whole pipeline as one run"));
  CHECK(has(help, "test   builds and runs the tests"));
  const Ended one = run_khost({"help", "evaluate"});
  CHECK(one.code == 0);
  CHECK(has(one, "usage: khost evaluate"));
  CHECK(run_khost({"--version"}).code == 0);
  const Ended unknown = run_khost({"doctr"});
  CHECK(unknown.code == 2);
  CHECK(has(unknown, "did you mean 'doctor'"));
  const Ended missing = run_khost({"no/such/script.lua"});
  CHECK(missing.code == 2);
  CHECK(has(missing, "no script 'no/such/script.lua'"));
}

TEST_CASE("a script's return value is the exit code and its arguments arrive") {
  const std::string path = script("code.lua", "return { run = function(args) return #args * 10 + 3 end }");
  CHECK(run_khost({path, "a", "--b"}).code == 23);
  CHECK(run_khost({script("none.lua", "return { run = function() end }")}).code == 0);
}

TEST_CASE("errors name file and line and end with 1, a script that does not load with 2") {
  const Ended raised = run_khost({script("raise.lua", "return { run = function()\n error('no luck') end }")});
  CHECK(raised.code == 1);
  CHECK(has(raised, "raise.lua:2: no luck"));
  const Ended syntax = run_khost({script("syntax.lua", "return {\n = }")});
  CHECK(syntax.code == 2);
  CHECK(has(syntax, "syntax.lua:2:"));
  const Ended global = run_khost({script("global.lua", "return { run = function() count = 1 end }")});
  CHECK(has(global, "assignment to the global 'count'"));
}

TEST_CASE("misuse of an option ends with 2, --help of a script with 0") {
  const std::string path = script("args.lua",
                                  "local args = require 'lib.args'\n"
                                  "return { run = function(list)\n"
                                  "  args.parse({ { name = '--steps', kind = 'number' } }, list)\n"
                                  "end }");
  const Ended wrong = run_khost({path, "--step", "3"});
  CHECK(wrong.code == 2);
  CHECK(has(wrong, "did you mean '--steps'"));
  CHECK(!has(wrong, "traceback"));
  CHECK(run_khost({path, "--help"}).code == 0);
}

TEST_CASE("SIGINT and SIGTERM cancel the root task, cleanups run, the exit code is 130") {
  const std::string path = script("wait.lua",
                                  "local sched, fs = require 'khost.sched', require 'khost.fs'\n"
                                  "return { run = function()\n"
                                  "  sched.spawn(function() sched.sleep(60) end)\n"
                                  "  fs.eprint('ready\\n')\n"
                                  "  local ok, reason = pcall(sched.sleep, 60)\n"
                                  "  fs.eprint('cleaned up\\n')\n"
                                  "  error(reason, 0)\n"
                                  "end }");
  for (const int signal : {SIGINT, SIGTERM}) {
    const Ended ended = run_khost({path}, signal);
    CHECK(ended.code == 130);
    CHECK(has(ended, "cleaned up"));
    CHECK(ended.seconds < 5);
  }
}

TEST_CASE("a deadlock is reported with the task's name and where it waits") {
  const Ended ended = run_khost({script("deadlock.lua",
                                        "local sched = require 'khost.sched'\n"
                                        "return { run = function() sched.channel(1):take() end }")});
  CHECK(ended.code == 1);
  CHECK(has(ended, "deadlock"));
  CHECK(has(ended, "task 'main'"));
  CHECK(has(ended, "deadlock.lua:2"));
}

TEST_CASE("the watchdog stops a loop, also one that catches errors, and names the line") {
  khost::HostOptions options;
  options.root = KHOST_SOURCE_DIR;
  options.longest_run_s = 0.05;
  {
    khost::Host host(options);
    CHECK(host.run_script(script("loop.lua", "return { run = function()\n while true do end end }"), {}) == 1);
    CHECK(host.tasks().alive() == 0);
  }
  {
    khost::Host host(options);
    const std::string text =
        "return { run = function() while true do pcall(function() while true do end end) end end }";
    CHECK(host.run_script(script("stubborn.lua", text), {}) == 1);
    CHECK(host.tasks().alive() == 0);
  }
}

TEST_CASE("a script that allocates without bound gets an error, and the host goes on") {
  khost::HostOptions options;
  options.root = KHOST_SOURCE_DIR;
  options.memory_bytes = size_t{64} << 20;
  khost::Host host(options);
  const std::string text =
      "return { run = function()\n"
      "  local ok, message = pcall(function() local t = {} while true do t[#t + 1] = ('x'):rep(1e5) .. #t end end)\n"
      "  return message == 'not enough memory' and 7 or 8\n"
      "end }";
  CHECK(host.run_script(script("hungry.lua", text), {}) == 7);
  CHECK(host.run_script(script("next.lua", "return { run = function() return 5 end }"), {}) == 5);
}
