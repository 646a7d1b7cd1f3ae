// The rule set `mixed`: every candidate of tests/data/kernels/cpu/mixed gets the verdict that is written beside it, and
// under `own` the one under "own".
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/sandbox/expected.h"
#include "tests/sandbox/judge_fixture.h"

namespace khost::sandbox {
namespace {

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

Json body_of(const std::string& name, const std::string& rules) {
  Json body = fixture(name);
  body["measure"] = false;
  body["rules"] = rules;
  return body;
}

std::vector<std::pair<std::string, int>> ask_all(JudgeProcess& judge, const std::string& rules) {
  std::vector<std::pair<std::string, int>> asked;
  for (const std::string& name : expectations().names("cpu/mixed")) {
    asked.emplace_back(name, judge.send("evaluate", body_of(name, rules)));
  }
  REQUIRE(!asked.empty());
  return asked;
}

TEST_CASE("mixed rules: sound candidates pass, and those whose own kernels do no work are refused") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  for (const auto& [name, id] : ask_all(judge, "mixed")) {
    const Json verdict = judge.wait(id);
    CAPTURE(name);
    CAPTURE(verdict.dump());
    CHECK(expectations().met(name, verdict));
    CHECK(verdict.value("rules", "") == "mixed");
    if (verdict.value("status", "") == "ok") {
      CHECK(verdict["evidence"].value("torch_operators", 99) < verdict["evidence"].value("reference_operators", 0));
      CHECK(verdict.value("own_share", -1.0) >= 0);
      CHECK(verdict.value("own_share", 2.0) <= 1);
    }
  }
}

TEST_CASE("mixed rules: the same candidates break the rules of own") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  for (const auto& [name, id] : ask_all(judge, "own")) {
    const Json verdict = judge.wait(id);
    CAPTURE(name);
    CAPTURE(verdict.dump());
    CHECK(verdict.value("status", "") == expectations().of(name)["own"].value("status", ""));
    CHECK(verdict.value("rules", "") == "own");
    CHECK(!verdict.contains("own_share"));
  }
}

TEST_CASE("mixed rules: a candidate of own kernels alone has the whole share") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  const Json verdict = judge.wait(judge.send("evaluate", body_of("cpu/good/multi_kernel", "mixed")));
  CAPTURE(verdict.dump());
  CHECK(verdict.value("status", "") == "ok");
  CHECK(verdict.value("own_share", 0.0) == 1);
}

TEST_CASE("mixed rules: another word is a bad request") {
  if (!ready()) {
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  const Json answer = judge.wait(judge.send("evaluate", body_of("cpu/good/multi_kernel", "some")));
  CAPTURE(answer.dump());
  CHECK(answer.dump().find("own or mixed expected") != std::string::npos);
}

}  // namespace
}  // namespace khost::sandbox
