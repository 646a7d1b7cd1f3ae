// What the end of a window means, for each reason that can be met while a candidate runs: at verification and, the
// same, while it is timed.
#include <doctest/doctest.h>
#include <signal.h>

#include <set>

#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/report.h"

using namespace khost;
using namespace khost::judge;

namespace {

Window ended(Window::End end, std::uint32_t status = 0, const std::string& message = "") {
  Window window;
  window.end = end;
  window.status = status;
  window.message = message;
  return window;
}

Window gone(int code, int signal) {
  Window window = ended(Window::End::gone);
  window.exit = sandbox::Exit{};
  window.exit->code = code;
  window.exit->signal = signal;
  return window;
}

struct Case {
  Finding finding;
  Outcome status;
  Reason reason;
};

// Every way in which a candidate can be caught while it runs.
std::vector<Case> cases() {
  using End = Window::End;
  Window ran = ended(End::ran);
  ran.ran_s = 5e-6;
  DeviceTurn lost, unopened, woke, early, loose;
  lost.lost = true;
  unopened.opened = false;
  woke.woke = true;
  early.wrong = 1;
  early.sampled = 64;
  loose.loose = 13;
  loose.most_loose = 12;
  return {
      {blame_window(ended(End::timeout)), Outcome::timeout, Reason::call},
      {blame_window(ended(End::stuck)), Outcome::timeout, Reason::stop},
      {blame_window(ran), Outcome::violation, Reason::ran_while_frozen},
      {blame_window(ended(End::escaped)), Outcome::violation, Reason::affinity},
      {blame_window(gone(0, SIGSEGV)), Outcome::crash, Reason::signal},
      {blame_window(gone(0, SIGILL)), Outcome::crash, Reason::signal},
      {blame_window(gone(3, 0)), Outcome::crash, Reason::exit},
      {blame_window(ended(End::gone)), Outcome::crash, Reason::exit},
      {blame_window(gone(12, 0)), Outcome::oom, Reason::memory},
      {blame_window(gone(0, SIGKILL)), Outcome::oom, Reason::memory},
      {blame_window(ended(End::done, 7, "launcher 0 returned 7")), Outcome::crash, Reason::status},
      {blame_set_up(ended(End::timeout)), Outcome::timeout, Reason::set_up},
      {blame_set_up(ended(End::done, 1, "no such symbol")), Outcome::crash, Reason::set_up},
      {blame_set_up(ended(End::done, 1, "mmap: Cannot allocate memory")), Outcome::oom, Reason::set_up},
      {blame_set_up(ended(End::done, 1, "CUDA: out of memory")), Outcome::oom, Reason::set_up},
      {blame_set_up(gone(0, SIGKILL)), Outcome::oom, Reason::set_up},
      {blame_set_up(gone(0, SIGABRT)), Outcome::crash, Reason::set_up},
      {*blame_unopened(lost), Outcome::crash, Reason::device},
      {*blame_unopened(unopened), Outcome::violation, Reason::synchronises},
      {*blame_acknowledged(woke), Outcome::violation, Reason::ran_while_frozen},
      {*blame_acknowledged(early), Outcome::wrong, Reason::early_acknowledgement},
      {*blame_acknowledged(loose), Outcome::wrong, Reason::early_acknowledgement},
      {blame_busy(2.4e-3), Outcome::violation, Reason::device_busy},
      {blame_python("violation/torch_compute: line 3"), Outcome::violation, Reason::torch_compute},
      {blame_python("violation/import: line 3"), Outcome::violation, Reason::import},
      {blame_python("violation/forbidden: line 3"), Outcome::violation, Reason::forbidden},
      {blame_python("violation/patches: line 3"), Outcome::violation, Reason::patches},
      {blame_python("error: ValueError"), Outcome::crash, Reason::error},
      {blame_python("state: other parameters"), Outcome::crash, Reason::state},
      {{Outcome::wrong, Reason::mismatch, ""}, Outcome::wrong, Reason::mismatch},
      {{Outcome::wrong, Reason::stale_output, ""}, Outcome::wrong, Reason::stale_output},
      {{Outcome::wrong, Reason::stale_weights, ""}, Outcome::wrong, Reason::stale_weights},
      {{Outcome::wrong, Reason::shape, ""}, Outcome::wrong, Reason::shape},
      {{Outcome::violation, Reason::writes_inputs, ""}, Outcome::violation, Reason::writes_inputs},
      {{Outcome::violation, Reason::no_own_work, ""}, Outcome::violation, Reason::no_own_work},
      {{Outcome::suspect, Reason::floor, ""}, Outcome::suspect, Reason::floor},
      {{Outcome::suspect, Reason::remembers, ""}, Outcome::suspect, Reason::remembers},
  };
}

}  // namespace

TEST_CASE("the end of a window is blamed in one way") {
  for (const Case& one : cases()) {
    CHECK(word_of(one.finding.status) == word_of(one.status));
    CHECK(word_of(one.finding.reason) == word_of(one.reason));
  }
  CHECK_FALSE(blame_unopened({}).has_value());
  CHECK_FALSE(blame_acknowledged({}).has_value());
  CHECK(blame_window(gone(0, SIGSEGV)).text.find("signal 11") != std::string::npos);
}

TEST_CASE("a candidate that is caught while it is timed is not correct, pays nothing and ends with exit code 1") {
  for (const Case& one : cases()) {
    Verdict verdict;
    verdict.enter(Stage::time);
    verdict.faster = {{"eager", true}, {"compile", true}};  // one baseline may have been beaten before
    verdict.measured();
    verdict.fail(Stage::time, one.finding);
    verdict.pass();
    const Json json = verdict.to_json();
    CHECK(json["status"] == word_of(one.status));
    CHECK(json["reason"] == word_of(one.reason));
    CHECK(json["stage"] == "time");
    CHECK(json["correct"] == false);
    CHECK(json["faster"]["eager"] == false);
    CHECK(json["faster"]["compile"] == false);
    CHECK(exit_code_of(verdict.status()) == 1);
  }
}

TEST_CASE("every reason that the table allows a candidate at stage time has a case here") {
  std::set<Reason> met;
  for (const Case& one : cases()) {
    met.insert(one.reason);
  }
  for (const Reason reason : all_reasons()) {
    for (const Outcome status : all_statuses()) {
      if (allowed(status, Stage::time, reason) && fault_of(status) == Fault::candidate) {
        const bool general = reason == Reason::bad_input || reason == Reason::timeout || reason == Reason::limit;
        CHECK_MESSAGE((general || met.count(reason) > 0), word_of(reason));
      }
    }
  }
}

TEST_CASE("what may have been killed by others is tried once more, and what fails by itself is not") {
  const auto verdict = [](const char* status, const char* reason, const char* detail) {
    return Json{{"status", status}, {"reason", reason}, {"detail", detail}};
  };
  CHECK(may_have_been_killed(verdict("bad_task", "ended", "a Python child ended")));
  CHECK(may_have_been_killed(verdict("oom", "memory", "the candidate's process ran out of memory")));
  CHECK(may_have_been_killed(verdict("build_failed", "plan", "a Python child ended")));
  CHECK_FALSE(may_have_been_killed(verdict("build_failed", "plan", "model_new.py line 3: a plan without launches")));
  for (const char* text : {"g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
                           "collect2: fatal error: ld terminated with signal 9 [Killed]", "the compiler died",
                           "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"}) {
    CHECK(may_have_been_killed(verdict("build_failed", "build", text)));
  }
  CHECK_FALSE(may_have_been_killed(verdict("build_failed", "build", "k.cpp:1: error: expected ';'")));
  CHECK_FALSE(may_have_been_killed(verdict("crash", "signal", "ended by signal 11")));
  // A candidate that ends itself as one whose allocation failed has one try, and so has one that writes what a driver
  // would.
  CHECK_FALSE(may_have_been_killed(verdict("oom", "memory", blame_window(gone(12, 0)).text.c_str())));
  CHECK(may_have_been_killed(verdict("oom", "memory", blame_window(gone(0, SIGKILL)).text.c_str())));
  const std::string driver = "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n";
  CHECK_FALSE(may_have_been_killed(verdict("build_failed", "plan", driver.c_str())));
  const std::vector<std::string> forged = {
      "k.cpp:3:15: error: static assertion failed: Killed signal terminated program cc1plus",
      "k.cpp:3:15: error: static assertion failed: \n" + driver,
      "x:2:9: note: '#pragma message: \n" + driver +
          "'\nx:3:1: fatal error: no.h: No such file or directory\ncompilation terminated.\n",
      "x:2:9: note: '#pragma message: \n" + driver + "'\n[12345 bytes left out]\n",
      "x:2:9: note: '#pragma message: \n" + driver + "'\ncollect2: error: ld returned 1 exit status\n",
      "k.cpp:1: note: g++: fatal error: Killed signal terminated program cc1plus"};
  for (const std::string& text : forged) {
    CHECK_FALSE(may_have_been_killed(verdict("build_failed", "build", text.c_str())));
  }
  CHECK(may_have_been_killed(verdict("build_failed", "build", ("k.cpp:1: warning: unused\n" + driver).c_str())));
  CHECK_FALSE(may_have_been_killed(verdict("bad_task", "bad_task", "NaN")));
}

TEST_CASE("an agent reads what is wrong, or how far the candidate is from the floor") {
  Verdict wrong;
  wrong.evidence["wrong_set"] = 1;
  wrong.fail(Outcome::wrong, Stage::verify, Reason::stale_output, "");
  Mismatch mismatch;
  mismatch.count = 2;
  mismatch.total = 4;
  mismatch.examples.push_back({{1}, 1.5, 2.5, 0.1});
  const std::string text = verify_text(wrong, 3, {mismatch}, nullptr);
  CHECK(text.find("Wrong in set 2 of 3: the output is that of an earlier call") == 0);
  CHECK(text.find("2.5") != std::string::npos);

  Verdict crash;
  crash.fail(Outcome::crash, Stage::time, Reason::signal, "died of signal 11");
  CHECK(verify_text(crash, 3, {}, nullptr) == "crash (time: signal)\ndied of signal 11\n");

  // Nothing is cut, however long.
  CHECK(format_line("%s", std::string(1000, 'x').c_str()).size() == 1000);
}
