// Tasks are strangers' code, and the tasks of a judge are opened by children of one jail: none of them may reach the
// children of another one, or leave anything that does.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "tests/sandbox/zygote_fixture.h"

using namespace khost;

namespace {

constexpr double kTimeout_s = 60;

// What a child answers to a task whose file raises the text that `body` makes. `body` has os and signal at hand,
// others(), the numbers of the jail's processes that it is not itself, and attempt(), which says how a call ended.
std::string said(judge::Child& child, const std::string& body) {
  const std::string source = R"(
import os, signal, time
def others():
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
def attempt(what):
    try:
        what()
        return "done"
    except OSError as error:
        return type(error).__name__
)" + body + "\n";
  const Result<Json> answer = child.call(
      {{"kind", "load"}, {"source", source}, {"seed", 1}, {"plant", false}, {"device", "cpu"}}, {}, kTimeout_s);
  REQUIRE_FALSE(answer);
  const std::string text = answer.failure().message;
  const auto at = text.find("ValueError: ");
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return text.substr(at + 12);
}

void check_all(judge::Child& hostile, const std::map<std::string, std::string>& cases) {
  for (const auto& [body, wanted] : cases) {
    CAPTURE(body);
    CHECK(said(hostile, body) == wanted);
  }
}

const std::map<std::string, std::string> kAlways = {
    {"raise ValueError(len(others()) >= 2)", "True"},
    {"raise ValueError({attempt(lambda: os.kill(pid, 9)) for pid in others()})", "{'PermissionError'}"},
    {"raise ValueError(attempt(lambda: os.kill(-1, 9)))", "PermissionError"},
    {"raise ValueError({attempt(lambda: open(f'/proc/{pid}/mem', 'r+b')) for pid in others()})", "{'PermissionError'}"},
    {"raise ValueError({attempt(lambda: os.sched_setaffinity(pid, {0})) for pid in others()})", "{'PermissionError'}"},
    {"raise ValueError(attempt(lambda: os.setpriority(os.PRIO_PROCESS, 0, 5)))", "PermissionError"},
    {"raise ValueError({attempt(lambda: os.chmod(folder, 0)) for folder in ('/tmp', '/tmp/tasks', '/dev/null')})",
     "{'PermissionError'}"},
    {"raise ValueError(attempt(lambda: os.chown('/tmp', -1, os.getgid())))", "PermissionError"},
    {"raise ValueError(attempt(lambda: os.setxattr('/tmp', 'user.x', b'')))", "PermissionError"}};

// Of the failure of a task that finds no room on its device.
std::string code_of_no_room(judge::Child& child) {
  const Result<Json> answer = child.call({{"kind", "load"},
                                          {"source", "raise OSError(28, 'No space left on device')\n"},
                                          {"seed", 1},
                                          {"plant", false},
                                          {"device", "cpu"}},
                                         {}, kTimeout_s);
  return answer ? std::string() : answer.failure().code;
}

bool landlock() {
  constexpr int kCreateRuleset = 444, kVersion = 1;
  return syscall(kCreateRuleset, nullptr, 0, kVersion) >= 2;
}

}  // namespace

TEST_CASE("a task starts no process beside the references, and neither signals nor reads another one") {
  const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
  if (!zygote) {
    return;
  }
  Result<judge::Child> bystander = zygote->spawn(), hostile = zygote->spawn();
  REQUIRE(bystander);
  REQUIRE(hostile);
  check_all(*hostile, kAlways);
  check_all(*hostile, {{"raise ValueError(attempt(os.fork))", "PermissionError"}});
  CHECK(said(*bystander, "raise ValueError('still here')") == "still here");
}

TEST_CASE("a task may compile, but what it leaves behind ends, and it writes to nothing that another task reads") {
  const std::unique_ptr<judge::Zygote> zygote = tests::zygote_for_tests("baselines", judge::Serves::compilers);
  if (!zygote) {
    return;
  }
  Result<judge::Child> bystander = zygote->spawn();
  REQUIRE(bystander);
  {
    Result<judge::Child> hostile = zygote->spawn();
    REQUIRE(hostile);
    check_all(*hostile, kAlways);
    if (landlock()) {
      check_all(*hostile, {{"raise ValueError(attempt(lambda: open('/tmp/inductor/x', 'w')))", "PermissionError"},
                           {"raise ValueError(attempt(lambda: os.mkdir('/tmp/tasks/other')))", "PermissionError"},
                           {"raise ValueError(attempt(lambda: open(os.environ['TMPDIR'] + '/x', 'w')))", "done"},
                           {"raise ValueError(attempt(lambda: open('/dev/null', 'w')))", "done"}});
    }
    CHECK(said(*hostile,
               "if os.fork() == 0:\n"
               "    os.setsid()\n"
               "    if os.fork() == 0:\n"
               "        time.sleep(600)\n"
               "    os._exit(0)\n"
               "os.wait()\n"
               "raise ValueError(len(others()))") == "3");  // the zygote, the bystander and the daemon
  }
  std::string left;
  for (int i = 0; i < 100 && left != "2"; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Result<judge::Child> next = zygote->spawn();
    REQUIRE(next);
    left = said(*next, "raise ValueError(len(others()))");
  }
  CHECK(left == "2");
  CHECK(said(*bystander, "raise ValueError('still here')") == "still here");
}

// A task that fills a folder is stopped and to blame; the one behind it finds room while it lives.
void fills_and_leaves_room(judge::Zygote& zygote, const std::string& fills, const std::string& writes) {
  Result<judge::Child> hostile = zygote.spawn();
  REQUIRE(hostile);
  CHECK(said(*hostile, fills) == "OSError");
  CHECK(code_of_no_room(*hostile) == "bad_task");
  Result<judge::Child> next = zygote.spawn();
  REQUIRE(next);
  CHECK(said(*next, writes) == "done");
}

TEST_CASE("a task that fills the folder of all tasks leaves room for the next one, living or not") {
  const std::unique_ptr<judge::Zygote> zygote = tests::zygote_for_tests("baselines", judge::Serves::compilers);
  if (!zygote) {
    return;
  }
  const std::string writes =
      "raise ValueError(attempt(lambda: open(os.environ['TMPDIR'] + '/x', 'wb').write(bytes(1 << 20))))";
  const std::string fills =
      "def fill():\n"
      "    for i in range(100):\n"
      "        with open(f\"{os.environ['TMPDIR']}/{i}\", 'wb') as file:\n"
      "            file.write(bytes(1 << 24))\n"
      "raise ValueError(attempt(fill))";
  fills_and_leaves_room(*zygote, fills, writes);
}

TEST_CASE("a task that uses up the names of the folder of all tasks is to blame for that, and leaves some to the next" *
          doctest::skip(geteuid() != 0)) {
  const std::unique_ptr<judge::Zygote> zygote = tests::zygote_for_tests("baselines", judge::Serves::compilers);
  if (!zygote) {
    return;
  }
  const std::string fills =
      "def fill():\n"
      "    first = os.environ['TMPDIR'] + '/first'\n"
      "    open(first, 'wb').close()\n"
      "    for i in range(200000):\n"
      "        os.link(first, f'{first}{i}')\n"
      "raise ValueError(attempt(fill))";
  fills_and_leaves_room(*zygote, fills, "raise ValueError(attempt(lambda: open(os.environ['TMPDIR'] + '/x', 'wb')))");
}

TEST_CASE("what a task leaves in the folders of the references is gone when nobody needs it") {
  const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
  if (!zygote) {
    return;
  }
  const std::string leaves =
      "for folder in ('/tmp', '/dev/shm'):\n"
      "    os.mkdir(folder + '/left')\n"
      "    open(folder + '/left/file', 'wb').write(bytes(1 << 20))\n"
      "raise ValueError('left')";
  {
    Result<judge::Child> hostile = zygote->spawn();
    REQUIRE(hostile);
    CHECK(said(*hostile, leaves) == "left");
  }
  std::string left;
  for (int i = 0; i < 100 && left != "[]"; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Result<judge::Child> next = zygote->spawn();
    REQUIRE(next);
    left = said(*next, "raise ValueError([name for name in ('/tmp/left', '/dev/shm/left') if os.path.exists(name)])");
  }
  CHECK(left == "[]");
}

TEST_CASE("an answer of millions of parts or words is none") {
  const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
  if (!zygote) {
    return;
  }
  for (const std::string piece : {"{},", "[],", "\"\","}) {
    Result<judge::Child> hostile = zygote->spawn();
    REQUIRE(hostile);
    const std::string source = "import os, stat\npiece = b'" + piece + "'\n" + R"(
text = b'{"inputs":[' + piece * (((64 << 20) - 64) // len(piece)) + b'{}]}'
for fd in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            left = memoryview(len(text).to_bytes(4, "little") + text)
            while left:
                left = left[os.write(fd, left):]
            os._exit(0)
    except OSError:
        continue
)";
    const Result<Json> answer = hostile->call(
        {{"kind", "load"}, {"source", source}, {"seed", 1}, {"plant", false}, {"device", "cpu"}}, {}, kTimeout_s);
    REQUIRE_FALSE(answer);
    CHECK(answer.failure().code == "gone");
    CHECK(answer.failure().message == "a Python child answered no JSON");
  }
}

TEST_CASE("a task that finds no room in its jail is not to blame for that") {
  const std::unique_ptr<judge::Zygote> zygote = tests::zygote_for_tests("baselines", judge::Serves::compilers);
  if (!zygote) {
    return;
  }
  Result<judge::Child> child = zygote->spawn();
  REQUIRE(child);
  CHECK(code_of_no_room(*child) == "io");
}
