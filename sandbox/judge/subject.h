// The processes that are timed, all played by the same turns: the judge writes inputs and weights while the subject
// stands still, then opens the window; the subject's acknowledgement closes it. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/build.h"
#include "sandbox/abi/plan.h"
#include "sandbox/jail/jail.h"
#include "sandbox/judge/region.h"
#include "sandbox/judge/zygote.h"
#include "sandbox/subject/turn.h"

namespace khost::judge {

struct InputSet {
  Region inputs;
  Region state;
  Region expected;
};

struct Call {
  enum class Outcome { ok, error, died, timeout };
  Outcome outcome = Outcome::ok;
  double wall_s = 0;
  double run_delay_s = 0;  // time that the subject's threads were ready to run but did not
  std::string message;     // what the subject says; untrusted text
};

// A candidate's plan in a jailed khost-subject: no Python, no torch, no other process, no file of anybody's. Frozen
// except inside its windows, so that nothing it does between them can help it.
class CandidateProcess {
 public:
  // Codes: crash and timeout are the candidate's; host is ours.
  static Result<std::unique_ptr<CandidateProcess>> start(const sandbox::Built& built, const sandbox::Plan& plan,
                                                         const InputSet& shape, int threads);
  ~CandidateProcess();

  // Outputs are poisoned first with values that do not depend on what is expected.
  Call play(const InputSet& set, double timeout_s);
  const std::byte* outputs() const { return outputs_.data(); }

 private:
  CandidateProcess(sandbox::Jail jail, Region control, Region inputs, Region state, Region outputs);
  sandbox::ControlPage& page() { return *reinterpret_cast<sandbox::ControlPage*>(control_.data()); }

  sandbox::Jail jail_;
  Region control_, inputs_, state_, outputs_;
  std::uint32_t seq_ = sandbox::kReady;
};

// The task's own Model, eager or compiled, in a child of the task zygote.
class BaselineProcess {
 public:
  static Result<std::unique_ptr<BaselineProcess>> start(std::unique_ptr<Child> child, const std::string& mode,
                                                        std::size_t input_bytes, std::size_t state_bytes,
                                                        const InputSet& first);
  Call play(const InputSet& set, double timeout_s);
  bool alive() const { return alive_; }
  double warm_up_s() const { return warm_up_s_; }

 private:
  BaselineProcess(std::unique_ptr<Child> child, Region control, Region inputs, Region state);

  std::unique_ptr<Child> child_;
  Region control_, inputs_, state_;
  std::uint32_t seq_ = sandbox::kReady;
  bool alive_ = true;
  double warm_up_s_ = 0;
};

}  // namespace khost::judge
