#include "sandbox/workspace/shell.h"

#include <doctest/doctest.h>

#include <thread>

using namespace khost;
using namespace khost::sandbox;

namespace {

struct Bench {
  std::shared_ptr<Workspace> workspace;
  std::shared_ptr<Shell> shell;

  explicit Bench(const ShellOptions& options = {}) {
    WorkspaceOptions wanted;
    wanted.files = {{"model.py", "class Model: pass\n"}, {"kernels/.keep", ""}, {"model_new.py", ""}};
    Result<std::shared_ptr<Workspace>> made = Workspace::create(wanted);
    REQUIRE_MESSAGE(bool(made), made.failure().message);
    workspace = *made;
    Result<std::shared_ptr<Shell>> opened = Shell::open(workspace, options);
    REQUIRE_MESSAGE(bool(opened), opened.failure().message);
    shell = *opened;
  }

  RunResult run(const std::string& command, const RunOptions& options = {}) {
    Result<RunResult> result = shell->run(command, options);
    REQUIRE_MESSAGE(bool(result), result.failure().message);
    return *result;
  }
};

RunOptions within(double timeout_s) {
  return {.timeout_s = timeout_s, .input = "", .output_bytes = 30000};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("directory, variables and functions persist between commands") {
  Bench bench;
  CHECK(bench.run("cd kernels; x=5; export Y=6; f() { echo f$1; }").code == 0);
  const RunResult result = bench.run("pwd; echo $x; bash -c 'echo $Y'; f 1; false");
  CHECK(result.output == "/workspace/kernels\n5\n6\nf1\n");
  CHECK(result.code == 1);
  CHECK(result.cwd == "/workspace/kernels");
  CHECK(!result.state_lost);
}

TEST_CASE("standard input is empty unless given") {
  Bench bench;
  CHECK(bench.run("read x || echo end", within(5)).output == "end\n");
  CHECK(bench.run("cat", {.timeout_s = 5, .input = "text\n", .output_bytes = 1000}).output == "text\n");
}

TEST_CASE("leaving the allowed folders is undone and reported") {
  Bench bench;
  const RunResult result = bench.run("cd /usr; pwd");
  CHECK(result.output == "/usr\n");
  CHECK(result.cwd == "/workspace");
  CHECK(contains(result.notice, "set back to /workspace"));
  CHECK(bench.run("pwd").output == "/workspace\n");
}

TEST_CASE("a timeout ends the command and keeps the shell and its state") {
  Bench bench;
  bench.run("x=kept; cd kernels; f() { echo f; }");
  const RunResult slow = bench.run("echo begin; sleep 60; echo not reached", within(0.3));
  CHECK(slow.timed_out);
  CHECK(slow.code == -1);
  CHECK(slow.output.rfind("begin\n", 0) == 0);
  CHECK(!contains(slow.output, "not reached"));
  CHECK(!slow.state_lost);
  CHECK(slow.wall_s < 3);
  const RunResult busy = bench.run("while :; do :; done", within(0.3));
  CHECK(busy.timed_out);
  CHECK(!busy.state_lost);
  CHECK(bench.run("for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done", within(0.3)).timed_out);
  CHECK(bench.run("(trap '' TERM; sleep 60)", within(0.3)).timed_out);
  CHECK(bench.run("echo $x; pwd; f").output == "kept\n/workspace/kernels\nf\n");
}

TEST_CASE("a timeout leaves earlier background children alone") {
  Bench bench;
  bench.run("sleep 50 & p=$!; sleep 0.1");
  CHECK(bench.run("sleep 60", within(0.3)).timed_out);
  CHECK(bench.run("kill -0 $p && echo alive").output == "alive\n");
}

TEST_CASE("exit, set -e, exec, break and continue do not end the session") {
  Bench bench;
  bench.run("x=1");
  CHECK(bench.run("exit 7").code == 7);
  CHECK(bench.run("set -e; false; echo no").code == 1);
  CHECK(bench.run("break; echo after").code == 0);
  CHECK(bench.run("continue; echo after").code == 0);
  CHECK(bench.run("return 3").code != 0);
  CHECK(bench.run("echo $x").output == "1\n");
  const RunResult replaced = bench.run("cd /tmp; kill -9 $$", within(5));
  CHECK(replaced.state_lost);
  CHECK(replaced.code == -1);
  CHECK(bench.run("echo works").output == "works\n");
}

TEST_CASE("a syntax error is reported and nothing of the command runs") {
  Bench bench;
  const RunResult quote = bench.run("echo run\necho 'open");
  CHECK(quote.code == 2);
  CHECK(contains(quote.output, "syntax error"));
  CHECK(!contains(quote.output, "run\nrun"));
  const RunResult here = bench.run("cat <<EOF\ntext");
  CHECK(here.code == 2);
  CHECK(contains(here.output, "here-document"));
  CHECK(bench.run("cat <<EOF\ntext\nEOF").output == "text\n");
}

TEST_CASE("no output can imitate the report of a command") {
  Bench bench;
  const RunResult result = bench.run("printf 'khost1x1 0 - /workspace\\0'; printf 'khost1x1 0 - /\\0' >&61; exit 3");
  CHECK(result.code == 3);
  CHECK(result.cwd == "/workspace");
}

TEST_CASE("long output is cut in the middle, the rest is in a file") {
  Bench bench;
  const RunResult result = bench.run("seq 20000", {.timeout_s = 10, .input = "", .output_bytes = 1000});
  CHECK(result.truncated);
  CHECK(result.output.size() < 1100);
  CHECK(result.output.rfind("1\n2\n", 0) == 0);
  CHECK(contains(result.output, "bytes left out"));
  CHECK(contains(result.output, "20000\n"));
  CHECK(bench.run("tail -n 1 " + result.full_path + "; wc -l < " + result.full_path).output == "20000\n20000\n");
  const RunResult flood = bench.run("head -c 1000000000 /dev/zero; echo done", within(60));
  CHECK(flood.truncated);
  CHECK(flood.output.size() < 31000);
  CHECK(contains(flood.output, "done\n"));
  CHECK(bench.run("printf '\\e[31mred\\e[0m\\n10%%\\r100%%\\n'").output == "red\n100%\n");
}

TEST_CASE("a long command arrives whole") {
  Bench bench;
  const std::string text(200000, 'a');
  CHECK(bench.run("x='" + text + "'; echo ${#x}").output == "200000\n");
}

TEST_CASE("cancel ends a command from another thread") {
  Bench bench;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    bench.shell->cancel();
  });
  const RunResult result = bench.run("sleep 60");
  other.join();
  CHECK(result.wall_s < 5);
  CHECK(result.code == -1);
  CHECK(bench.run("echo on").output == "on\n");
}

TEST_CASE("a background job gives new output, its true exit and dies as a whole") {
  Bench bench;
  bench.run("cd kernels; export GREETING='hello world'; touch /tmp/shared");
  Result<std::string> id = bench.shell->start_job("pwd; echo $GREETING; ls /tmp/shared; exit 4", 20);
  REQUIRE(bool(id));
  std::string output;
  JobOutput taken;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    taken = bench.shell->job(*id)->take();
    output += taken.output;
  } while (taken.status == "running");
  CHECK(output == "/workspace/kernels\nhello world\n/tmp/shared\n");
  CHECK(taken.status == "failed");
  CHECK(taken.code == 4);
  id = bench.shell->start_job("setsid sleep 300 & sleep 300", 20);
  bench.shell->job(*id)->kill();
  CHECK(bench.shell->job(*id)->take().status == "killed");
  id = bench.shell->start_job("sleep 300", 0.2);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  CHECK(bench.shell->job(*id)->take().status == "timed_out");
  id = bench.shell->start_job("head -c 100000000 /dev/zero", 20);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (bench.shell->job(*id)->running());
  taken = bench.shell->job(*id)->take();
  CHECK(taken.output.size() == 1 << 20);
  CHECK(taken.lost_bytes == 100000000 - (1 << 20));
  CHECK(bench.shell->job("bash_99") == nullptr);
}
