// The judge as a process: every candidate of tests/kernels gets the verdict that is written beside it.
#include <doctest/doctest.h>

#include "sandbox/judge/subject.h"
#include "tests/sandbox/judge_fixture.h"

namespace khost::sandbox {
namespace {

using test::fixture;
using test::fixtures_of;
using test::JudgeProcess;

// A value, or a list of which one must be met.
bool meets(const Json& wanted, const Json& got) {
  if (!wanted.is_array()) {
    return wanted == got;
  }
  for (const Json& one : wanted) {
    if (one == got) {
      return true;
    }
  }
  return false;
}

bool ready() {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return false;
  }
  return true;
}

void judge_all(const std::string& group) {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  std::vector<std::pair<std::string, int>> asked;
  for (const std::string& name : fixtures_of(group)) {
    if (judge::kSanitized && name == "crash/exhausts_memory") {
      continue;  // what it is refused is a limit of addresses, which AddressSanitizer cannot live under
    }
    Json body = fixture(name);
    body["measure"] = false;
    asked.emplace_back(name, judge.send("evaluate", body));
  }
  REQUIRE(!asked.empty());
  for (const auto& [name, id] : asked) {
    const Json verdict = judge.wait(id);
    const Json expected =
        Json::parse(test::read_text(JudgeProcess::root() + "/tests/kernels/" + name + "/expected.json"));
    for (const char* key : {"status", "stage", "reason"}) {
      if (expected.contains(key)) {
        CAPTURE(name);
        CAPTURE(expected.dump());
        CAPTURE(verdict.dump());
        CHECK(meets(expected[key], verdict.value(key, "")));
      }
    }
    CHECK_MESSAGE(verdict.value("correct", false) == (verdict.value("status", "") == "ok"), name);
  }
}

TEST_CASE("the judge finds every good candidate correct") {
  judge_all("good");
}
TEST_CASE("the judge finds every wrong candidate wrong") {
  judge_all("wrong");
}
TEST_CASE("a candidate that crashes, hangs or misbehaves costs nobody but itself") {
  judge_all("crash");
}
TEST_CASE("no cheat passes the judge unless it pays its price") {
  judge_all("cheat");
}

TEST_CASE("the judge answers an agent on visible inputs that judge nothing") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  const Json good = judge.ask("verify", fixture("good/layer_norm"));
  CAPTURE(good.dump());
  CHECK(good.value("ok", false));
  CHECK(good.value("correct", false));
  CHECK(good.value("text", "").find("Correct") != std::string::npos);

  const Json wrong = judge.ask("verify", fixture("wrong/off_by_one"));
  CAPTURE(wrong.dump());
  CHECK_FALSE(wrong.value("ok", true));
  CHECK(wrong.value("text", "").find("1 of 524288 elements are wrong") != std::string::npos);
  CHECK(wrong.value("text", "").find("expected") != std::string::npos);

  const Json broken = judge.ask("verify", fixture("crash/does_not_compile"));
  CHECK(broken.value("status", "") == "build_failed");
  CHECK(broken.value("text", "").find("error") != std::string::npos);

  Json body = fixture("good/layer_norm");
  body["measure"] = false;
  const Json verdict = judge.ask("evaluate", body);
  REQUIRE(verdict["evidence"].contains("seeds"));
  REQUIRE(good["evidence"].contains("seeds"));
  for (const Json& secret : verdict["evidence"]["seeds"]) {
    for (const Json& visible : good["evidence"]["seeds"]) {
      CHECK(secret != visible);
    }
  }
  const Json again = judge.ask("verify", fixture("good/layer_norm"));
  CHECK(again["evidence"]["seeds"] == good["evidence"]["seeds"]);
  const Json second = judge.ask("evaluate", body);
  CHECK(second["evidence"]["seeds"] != verdict["evidence"]["seeds"]);
}

TEST_CASE("the judge refuses what it cannot work on with a reason") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  const Json files = fixture("good/row_softmax")["files"];
  const std::string head = "import torch\nimport torch.nn as nn\n";
  const auto verdict = [&](const std::string& source) {
    return judge.ask("evaluate", {{"task", {{"source", source}}}, {"files", files}, {"measure", false}});
  };
  const Json none = verdict(head);
  CHECK(none.value("status", "") == "bad_task");
  CHECK(none.value("detail", "").find("Model") != std::string::npos);
  const Json raises = verdict(head +
                              "class Model(nn.Module):\n  def forward(self, x):\n    return x\n"
                              "def get_inputs():\n  raise ValueError('no inputs today')\n");
  CHECK(raises.value("status", "") == "bad_task");
  CHECK(raises.value("detail", "").find("no inputs today") != std::string::npos);
  const Json draws = verdict(head +
                             "class Model(nn.Module):\n  def forward(self, x):\n    return torch.rand(4)\n"
                             "def get_inputs():\n  return [torch.rand(4)]\n");
  CHECK(draws.value("detail", "").find("deterministic") != std::string::npos);
  CHECK(judge.ask("evaluate", {{"files", files}})["error"]["code"] == "bad_input");
  CHECK(judge.ask("applaud", fixture("good/row_softmax"))["error"]["code"] == "bad_input");
}

}  // namespace
}  // namespace khost::sandbox
