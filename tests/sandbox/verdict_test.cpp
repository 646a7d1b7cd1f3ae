// The closed sets of a verdict, and what follows from them.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/service/request.h"
#include "sandbox/judge/verdict/verdict.h"

using namespace khost;
using namespace khost::judge;

TEST_CASE("every word of a verdict stands once in the table and is found again") {
  std::set<std::string_view> words;
  for (const Outcome status : all_statuses()) {
    CHECK(words.insert(word_of(status)).second);
    CHECK(status_of(word_of(status)) == status);
  }
  words.clear();
  for (const Reason reason : all_reasons()) {
    CHECK(words.insert(word_of(reason)).second);
    CHECK(reason_of(word_of(reason)) == reason);
    CHECK(!sentence_of(reason).empty());
  }
  CHECK(!status_of("policy"));
  CHECK(!reason_of(""));
  CHECK(!reason_of("anything"));
}

TEST_CASE("every reason has a status and a stage, and every status but ok has a reason") {
  for (const Reason reason : all_reasons()) {
    bool somewhere = false;
    for (const Outcome status : all_statuses()) {
      for (const Stage stage : all_stages()) {
        somewhere = somewhere || allowed(status, stage, reason);
      }
    }
    CHECK_MESSAGE(somewhere, word_of(reason));
    CHECK(!allowed(Outcome::ok, Stage::verify, reason));
  }
  for (const Outcome status : all_statuses()) {
    bool met = false;
    for (const Reason reason : all_reasons()) {
      met = met || allowed(status, Stage::time, reason) || allowed(status, Stage::build, reason);
    }
    CHECK(met == (status != Outcome::ok));
  }
}

TEST_CASE("what a verdict counts as follows from its status") {
  const std::set<std::string_view> not_counted{"bad_task", "uninformative", "void"};
  for (const Outcome status : all_statuses()) {
    const bool left_out = not_counted.count(word_of(status)) > 0;
    CHECK((counts_of(status) == Counts::not_counted) == left_out);
    CHECK((counts_of(status) == Counts::passed) == (status == Outcome::ok));
    CHECK(exit_code_of(status) == (status == Outcome::ok ? 0 : left_out ? 3 : 1));
    CHECK((fault_of(status) == Fault::candidate) == (counts_of(status) == Counts::failed));
  }
}

TEST_CASE("the first failure stands, and only a verdict that never failed passes") {
  Verdict verdict;
  CHECK(verdict.to_json()["status"] == "void");
  CHECK(verdict.to_json()["reason"] == "unfinished");
  verdict.enter(Stage::time);
  verdict.faster["eager"] = true;
  verdict.measured();
  CHECK(!verdict.is_faster("eager"));
  verdict.fail(Outcome::crash, Stage::time, Reason::signal, "the first");
  verdict.fail(Outcome::void_, Stage::verify, Reason::host, "the second");
  verdict.enter(Stage::verify);
  verdict.pass();
  const Json json = verdict.to_json();
  CHECK(json["status"] == "crash");
  CHECK(json["stage"] == "time");
  CHECK(json["reason"] == "signal");
  CHECK(json["detail"] == "the first");
  CHECK(json["correct"] == false);
  CHECK(json["faster"]["eager"] == false);
  CHECK(json["speed"] == "none");
}

TEST_CASE("words that do not go together make a verdict void, and the text names them") {
  Verdict verdict;
  verdict.fail(Outcome::wrong, Stage::build, Reason::floor, "what was seen");
  CHECK(verdict.status() == Outcome::void_);
  CHECK(verdict.reason() == Reason::host);
  for (const char* part : {"wrong", "build", "floor", "what was seen"}) {
    CHECK(verdict.detail().find(part) != std::string::npos);
  }
  Verdict passed;
  passed.fail(Outcome::ok, Stage::time, Reason::none, "");
  CHECK(passed.status() == Outcome::void_);
}

TEST_CASE("unresolved speed leaves a verdict ok and no baseline beaten") {
  Verdict verdict;
  verdict.faster = {{"eager", true}, {"compile", false}};
  verdict.unresolved(SpeedReason::short_baseline);
  verdict.unresolved(SpeedReason::constant_task);
  verdict.measured();
  verdict.pass();
  const Json json = verdict.to_json();
  CHECK(json["correct"] == true);
  CHECK(json["speed"] == "unresolved");
  CHECK(json["speed_reason"] == "short_baseline");
  CHECK(json["faster"]["eager"] == false);
  CHECK(json["faster"]["compile"] == false);

  Verdict measured;
  measured.faster["eager"] = true;
  measured.measured();
  measured.pass();
  CHECK(measured.to_json()["speed"] == "measured");
  CHECK(measured.to_json()["faster"]["eager"] == true);
}

TEST_CASE("codes from elsewhere become words of the table") {
  const auto is = [](const Finding& finding, Outcome status, Reason reason) {
    return finding.status == status && finding.reason == reason;
  };
  CHECK(is(blame_build({"", "violation"}), Outcome::violation, Reason::linkage));
  CHECK(is(blame_build({"", "violation/torch_compute"}), Outcome::violation, Reason::torch_compute));
  CHECK(is(blame_build({"", "timeout"}), Outcome::build_failed, Reason::timeout));
  CHECK(is(blame_build({"", "gone"}), Outcome::void_, Reason::gone));
  CHECK(is(blame_build({"", "what nobody knows"}), Outcome::build_failed, Reason::build));
  CHECK(is(blame_plan({"", "shape"}), Outcome::wrong, Reason::shape));
  CHECK(is(blame_plan({"", "not_replayable"}), Outcome::build_failed, Reason::not_replayable));
  CHECK(is(blame_plan({"", "violation/import"}), Outcome::violation, Reason::import));
  CHECK(is(blame_plan({"", "violation/a new one"}), Outcome::violation, Reason::forbidden));
  CHECK(is(blame_plan({"", "signal"}), Outcome::build_failed, Reason::error));
  CHECK(is(blame_task({"", "bad_task"}), Outcome::bad_task, Reason::bad_task));
  CHECK(is(blame_task({"", "timeout"}), Outcome::bad_task, Reason::timeout));
  CHECK(is(blame_task({"", "trivial"}), Outcome::uninformative, Reason::trivial));
  CHECK(is(blame_task({"", "host"}), Outcome::void_, Reason::host));
  CHECK(is(blame_host({"", "bad_task"}), Outcome::bad_task, Reason::bad_task));
  CHECK(is(blame_host({"", "timeout"}), Outcome::void_, Reason::timeout));
  CHECK(is(blame_host({"", "mismatch"}), Outcome::void_, Reason::host));
  CHECK(is(blame_python("violation/patches: line 3"), Outcome::violation, Reason::patches));
  CHECK(blame_python("violation/patches: line 3").text == "line 3");
  CHECK(is(blame_python("state: other parameters"), Outcome::crash, Reason::state));
  CHECK(is(blame_python("ok: I am right"), Outcome::crash, Reason::error));
  CHECK(is(blame_python("no colon"), Outcome::crash, Reason::error));
}

TEST_CASE("a finding of every failure code is one that a verdict can hold") {
  for (const char* code :
       {"violation", "violation/x", "build",     "bad_input",  "timeout", "limit", "gone",    "host",
        "io",        "busy",        "lease",     "device",     "shape",   "plan",  "error",   "bad_task",
        "trivial",   "equal_sets",  "ambiguous", "not_finite", "init",    "ended", "nonsense"}) {
    const Failure failure{"text", code};
    CHECK(allowed(blame_build(failure).status, Stage::build, blame_build(failure).reason));
    CHECK(allowed(blame_plan(failure).status, Stage::plan, blame_plan(failure).reason));
    for (const Stage stage : {Stage::task, Stage::verify, Stage::time}) {
      CHECK(allowed(blame_task(failure).status, stage, blame_task(failure).reason));
      CHECK(allowed(blame_host(failure).status, stage, blame_host(failure).reason));
    }
    const Finding python = blame_python(std::string(code) + ": text");
    CHECK(allowed(python.status, Stage::time, python.reason));
  }
}

TEST_CASE("the text of a verdict has some thousand bytes, however much a stranger wrote") {
  for (const Reason reason : {Reason::build, Reason::call}) {  // the second one is none of this status
    Verdict verdict;
    verdict.fail(Outcome::build_failed, Stage::build, reason, "begin" + std::string(std::size_t{4} << 20, 'x') + "end");
    CHECK(verdict.detail().size() < 9000);
    CHECK(verdict.detail().find("begin") != std::string::npos);
    CHECK(verdict.detail().find("bytes left out") != std::string::npos);
    CHECK(verdict.detail().substr(verdict.detail().size() - 3) == "end");
  }
}

TEST_CASE("no word of a candidate makes a verdict that is not the candidate's fault") {
  std::vector<std::string> words = {"", "forbidden: text", "nonsense", "none", "violation/import"};
  for (const Reason reason : all_reasons()) {
    words.emplace_back(word_of(reason));
  }
  const auto fault = [](Stage stage, const Finding& finding) {
    Verdict verdict;
    verdict.fail(stage, finding);
    return word_of(fault_of(verdict.status()));
  };
  for (const std::string& word : words) {
    CAPTURE(word);
    const std::string refusal = std::string(kRefusal) + word;
    CHECK(fault(Stage::build, blame_build({"text", refusal})) == "candidate");
    CHECK(fault(Stage::plan, blame_plan({"text", refusal})) == "candidate");
    for (const Stage stage : {Stage::build, Stage::plan, Stage::verify, Stage::time, Stage::profile}) {
      const std::optional<Reason> reason = refusal_of(refusal, stage);
      REQUIRE(reason.has_value());
      CHECK(allowed(Outcome::violation, stage, *reason));
    }
    for (const Stage stage : {Stage::verify, Stage::time, Stage::profile}) {
      CHECK(fault(stage, blame_python(refusal + ": text")) == "candidate");
      CHECK(fault(stage, blame_python(word + ": text")) == "candidate");
    }
  }
}

TEST_CASE("what a candidate is compared with has one vocabulary on both targets") {
  using Words = std::vector<std::string>;
  for (const char* target : {"cpu", "cuda"}) {
    CHECK(*opponents_of({{"target", target}}) == Words{"eager", "compile"});
    CHECK(*opponents_of({{"target", target}, {"against", "both"}}) == Words{"eager", "compile"});
    CHECK(*opponents_of({{"target", target}, {"against", "eager"}}) == Words{"eager"});
    CHECK(*opponents_of({{"target", target}, {"against", "compile"}}) == Words{"compile"});
    CHECK(opponents_of({{"target", target}, {"against", "nothing"}}).failure().code == "bad_input");
    CHECK(opponents_of({{"target", target}, {"against", {"eager"}}}).failure().code == "bad_input");
  }
  CHECK(*opponents_of({{"against", "self"}}) == Words{"self"});
  CHECK(opponents_of({{"target", "cuda"}, {"against", "self"}}).failure().message.find("no self") != std::string::npos);
}
