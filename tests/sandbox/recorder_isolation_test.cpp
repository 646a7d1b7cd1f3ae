// Recorders run the code of many candidates in one jail: none of them may leave anything there or reach another one.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>

#include "sandbox/jail/tree.h"
#include "tests/sandbox/zygote_fixture.h"

using namespace khost;

namespace {

constexpr double kTimeout_s = 60;

const char* const kModel = R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x
)";

// What a recorder answers to a model_new.py whose ModelNew raises the text that `body` makes. `body` has os, sys and
// others() at hand, the numbers of the processes in the jail that it is not itself.
std::string said(judge::Child& child, const std::string& body) {
  const std::string source = R"(
import torch
os, sys, signal = torch.os, torch.sys, torch.sys.modules["signal"]
def others():
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
def attempt(what):
    try:
        what()
        return "done"
    except OSError as error:
        return type(error).__name__
)" + body + "\n";
  const Json tree = {{"storages", Json::array()}, {"tree", {{"kind", "tuple"}, {"items", Json::array()}}}};
  const Json request = {{"model_source", kModel},
                        {"model_new_source", source},
                        {"signatures", Json::object()},
                        {"inputs", tree},
                        {"state", tree}};
  Result<Json> answer = child.call({{"kind", "record"}, {"request", request}}, {}, kTimeout_s);
  REQUIRE_MESSAGE(answer, answer.failure().message);
  REQUIRE(answer->contains("error"));
  return (*answer)["error"].value("message", "");
}

}  // namespace

TEST_CASE("a recorder starts no process, and neither signals nor reads another one") {
  const std::unique_ptr<judge::Zygote> zygote = tests::zygote_for_tests("recorder", judge::Serves::recorders);
  if (!zygote) {
    return;
  }
  Result<judge::Child> bystander = zygote->spawn(), hostile = zygote->spawn();
  REQUIRE(bystander);
  REQUIRE(hostile);
  for (const auto& [body, wanted] : std::map<std::string, std::string>{
           {"raise ValueError(attempt(os.fork))", "PermissionError"},
           {"raise ValueError(len(others()) >= 2)", "True"},
           {"raise ValueError({attempt(lambda: os.kill(pid, 9)) for pid in others()})", "{'PermissionError'}"},
           {"raise ValueError(attempt(lambda: os.kill(-1, 9)))", "PermissionError"},
           {"raise ValueError({attempt(lambda: open(f'/proc/{pid}/mem', 'r+b')) for pid in others()})",
            "{'PermissionError'}"},
           {"raise ValueError(attempt(lambda: signal.setitimer(signal.ITIMER_REAL, 1)))", "itimer_error"},
           {"raise ValueError(attempt(os.setsid))", "PermissionError"},
           {"threading = sys.modules['threading']\nwaits = threading.Event()\nstarted = 0\ntry:\n"
            "    while started < 200:\n        threading.Thread(target=waits.wait, daemon=True).start()\n"
            "        started += 1\nexcept RuntimeError:\n    pass\nwaits.set()\n"
            "raise ValueError(0 < started < 16)",
            "True"},
           {"raise ValueError(attempt(lambda: os.sched_setaffinity(0, {0})))", "PermissionError"}}) {
    CAPTURE(body);
    CHECK(said(*hostile, body) == "ValueError: " + wanted);
  }
  CHECK(said(*bystander, "raise ValueError('still here')") == "ValueError: still here");
}

TEST_CASE("what a recorder left in the jail's folders is gone for the next one") {
  const std::unique_ptr<judge::Zygote> zygote = tests::zygote_for_tests("recorder", judge::Serves::recorders);
  if (!zygote) {
    return;
  }
  {
    Result<judge::Child> first = zygote->spawn();
    REQUIRE(first);
    // The clone itself may lie in /tmp, so only what is new counts.
    CHECK(said(*first,
               "before = set(os.listdir('/tmp') + os.listdir('/dev/shm'))\n"
               "os.makedirs('/tmp/a/b')\nopen('/tmp/a/b/c', 'w').write('x')\nopen('/dev/shm/d', 'w').write('x')\n"
               "raise ValueError(sorted(set(os.listdir('/tmp') + os.listdir('/dev/shm')) - before))") ==
          "ValueError: ['a', 'd']");
  }
  Result<judge::Child> second = zygote->spawn();
  REQUIRE(second);
  CHECK(said(*second, "raise ValueError(sorted({'a', 'd'} & set(os.listdir('/tmp') + os.listdir('/dev/shm'))))") ==
        "ValueError: []");
  CHECK(sandbox::children_of(zygote->pid()).size() == 1);
}
