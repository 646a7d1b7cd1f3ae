// Verdicts on cores that others use: what cannot be measured is measured again, by other processes of the candidate.
// These have met nothing that an earlier one could tell them of.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "sandbox/judge/cpu/clock.h"
#include "tests/sandbox/judge_fixture.h"

namespace khost::sandbox {
namespace {

using test::JudgeProcess;

// A program that keeps the core of whoever is timed busy for as long as this lives.
class Hog {
 public:
  Hog() : pid_(fork()) {
    if (pid_ == 0) {
      for (volatile bool always = true; always;) {
      }
    }
    judge::pin(pid_, judge::subject_core(), 1);
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;
  ~Hog() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

// Of a task that nobody was timed on before: its sets are new.
Json timed(const std::string& name, const std::string& rules) {
  Json body = test::fixture(name);
  body["task"]["source"] = body["task"]["source"].get<std::string>() + "# for a busy core\n";
  body["against"] = "eager";
  body["rules"] = rules;
  JudgeProcess& judge = JudgeProcess::shared();
  return judge.wait(judge.send("evaluate", body));
}

}  // namespace

TEST_CASE("a block that is measured again holds sets that no process of the candidate has met") {
  if (JudgeProcess::python() == nullptr || judge::core_count() < 2) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch, or one core");
    return;
  }
  const Hog hog;
  const Json verdict = timed("cpu/good/relu_plus_one", "own");
  CAPTURE(verdict.dump());
  CHECK(verdict.value("status", "") == "ok");
  CHECK(verdict.value("speed_reason", "") == "disturbed");
  CHECK(verdict["evidence"].contains("unseen_s"));
}

TEST_CASE("a process of a candidate finds nothing that an earlier one left in the memory that it is lent") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  const Json verdict = timed("cpu/mixed/tells_its_other_processes", "mixed");
  CAPTURE(verdict.dump());
  CHECK(verdict.value("status", "") == "ok");
}

}  // namespace khost::sandbox
