// The judge as a process: every candidate of tests/data/kernels gets the verdict that is written beside it.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "sandbox/judge/cpu/subject.h"
#include "tests/sandbox/expected.h"
#include "tests/sandbox/judge_fixture.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

using test::Expectations;
using test::fixture;
using test::JudgeProcess;

const Expectations& expectations() {
  static const Expectations all(JudgeProcess::root());
  return all;
}

bool ready() {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return false;
  }
  return true;
}

void check(const std::string& name, const Json& verdict) {
  CAPTURE(name);
  CAPTURE(expectations().of(name).dump());
  CAPTURE(verdict.dump());
  CHECK(expectations().met(name, verdict));
  CHECK(verdict.value("correct", false) == (verdict.value("status", "") == "ok"));
}

Json untimed(const std::string& name) {
  Json body = fixture(name);
  body["measure"] = false;
  return body;
}

// Those with a victim are judged apart, each by a judge of its own.
void judge_all(const std::string& group) {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  std::vector<std::pair<std::string, int>> asked;
  for (const std::string& name : expectations().names(group)) {
    if (judge::kSanitized && name == "cpu/crash/exhausts_memory") {
      continue;  // what it is refused is a limit of addresses, which AddressSanitizer cannot live under
    }
    if (!expectations().victim(name).empty()) {
      continue;
    }
    if (const std::string why = expectations().open(name); !why.empty()) {
      MESSAGE("known open, skipped: " << name << ": " << why);
      continue;
    }
    asked.emplace_back(name, judge.send("evaluate", untimed(name)));
  }
  REQUIRE(!asked.empty());
  for (const auto& [name, id] : asked) {
    check(name, judge.wait(id));
  }
}

TEST_CASE("the judge finds every good candidate correct") {
  judge_all("cpu/good");
}
TEST_CASE("the judge finds every wrong candidate wrong") {
  judge_all("cpu/wrong");
}
TEST_CASE("a candidate that crashes, hangs or misbehaves costs nobody but itself") {
  judge_all("cpu/crash");
}
TEST_CASE("no cheat passes the judge unless it pays its price") {
  judge_all("cpu/cheat");
}

TEST_CASE("a task that nobody can be judged on is named as the fault, not the candidate") {
  judge_all("cpu/task");
}

TEST_CASE("who comes behind a cheat before the same judge gets its own verdict") {
  if (!ready()) {
    return;
  }
  for (const char* group : {"cpu/cheat", "cpu/crash"}) {
    for (const std::string& name : expectations().names(group)) {
      const std::string victim = expectations().victim(name);
      if (victim.empty()) {
        continue;
      }
      if (const std::string why = expectations().open(name); !why.empty()) {
        MESSAGE("known open, skipped: " << name << ", then " << victim << ": " << why);
        continue;
      }
      CAPTURE(name);
      JudgeProcess judge;
      check(name, judge.ask("evaluate", untimed(name)));
      for (const char* mark : {"// once\n", "// twice\n"}) {
        Json body = untimed(victim);
        for (Json& text : body["files"]) {
          if (text.get_ref<const std::string&>().find("KHOST_EXPORT") != std::string::npos) {
            text = text.get<std::string>() + mark;  // an artefact of its own: else the judge may remember it
          }
        }
        check(victim, judge.ask("evaluate", body));
      }
    }
  }
}

TEST_CASE("every cheat says what it does and by which mechanism, and what is open names a candidate") {
  const std::set<std::string> mechanisms = {"clock",  "input",     "state", "process",
                                            "memory", "tolerance", "text",  "library"};
  for (const char* group : {"cpu/cheat", "cuda/cheat", "python/cheat"}) {
    for (const std::string& name : expectations().names(group)) {
      const Json expected = expectations().of(name);
      CAPTURE(name);
      CHECK(expected.value("attack", "").size() > 10);
      CHECK(mechanisms.count(expected.value("mechanism", "")) == 1);
      for (const char* key : {"twin", "victim"}) {
        CHECK(fs::exists(expectations().folder(expected.value(key, name)) / "expected.json"));
      }
    }
  }
  for (const auto& [name, why] : expectations().all_open().items()) {
    CAPTURE(name);
    CHECK(fs::exists(expectations().folder(name) / "expected.json"));
    CHECK(why.get<std::string>().size() > 10);
  }
}

TEST_CASE("the judge answers an agent on visible inputs that judge nothing") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  const Json good = judge.ask("verify", fixture("cpu/good/layer_norm"));
  CAPTURE(good.dump());
  CHECK(good.value("ok", false));
  CHECK(good.value("correct", false));
  CHECK(good.value("text", "").find("Correct") != std::string::npos);

  const Json wrong = judge.ask("verify", fixture("cpu/wrong/off_by_one"));
  CAPTURE(wrong.dump());
  CHECK_FALSE(wrong.value("ok", true));
  CHECK(wrong.value("text", "").find("1 of 524288 elements are wrong") != std::string::npos);
  CHECK(wrong.value("text", "").find("expected") != std::string::npos);

  const Json broken = judge.ask("verify", fixture("cpu/crash/does_not_compile"));
  CHECK(broken.value("status", "") == "build_failed");
  CHECK(broken.value("text", "").find("error") != std::string::npos);

  Json body = fixture("cpu/good/layer_norm");
  body["measure"] = false;
  const Json verdict = judge.ask("evaluate", body);
  REQUIRE(verdict["evidence"].contains("seeds"));
  REQUIRE(good["evidence"].contains("seeds"));
  for (const Json& secret : verdict["evidence"]["seeds"]) {
    for (const Json& visible : good["evidence"]["seeds"]) {
      CHECK(secret != visible);
    }
  }
  const Json again = judge.ask("verify", fixture("cpu/good/layer_norm"));
  CHECK(again["evidence"]["seeds"] == good["evidence"]["seeds"]);
  const Json second = judge.ask("evaluate", body);
  CHECK(second["evidence"]["seeds"] != verdict["evidence"]["seeds"]);
}

TEST_CASE("the judge refuses what it cannot work on with a reason") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  const Json files = fixture("cpu/good/row_softmax")["files"];
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
  CHECK(judge.ask("applaud", fixture("cpu/good/row_softmax"))["error"]["code"] == "bad_input");
}

}  // namespace
}  // namespace khost::sandbox
