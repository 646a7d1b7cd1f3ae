// The rule set `mixed`: torch operators may stand beside own kernels where the answer is wrong without what these
// compute, and where forward dispatches fewer operators that compute than the reference does. Both are found out in a
// process of ours, in which nothing of the candidate's runs (khost/candidate/mixed_audit.py).
#include <algorithm>
#include <chrono>
#include <limits>

#include "sandbox/judge/cpu/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/limits.h"
#include "sandbox/judge/task/planning.h"

namespace khost::judge {
namespace {

constexpr std::size_t kOwnHeader = 64;  // khost/candidate/mixed_player.py
constexpr int kShareCalls = 50, kFewestShareCalls = 3;
constexpr double kMostShare_s = 1;  // for these calls, where a call takes long
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

}  // namespace

// A process of the candidate's. What its launches write is kept for the audit where it is verified. Only that process
// is lent the region: whatever one process leaves there, the next one would find.
Result<std::unique_ptr<Subject>> CpuEvaluation::start(Stage stage) {
  if (!plan_.uses_torch()) {
    return Subject::start(session_.get(), plan_, built_.path, threads_, service_.limits_);
  }
  const bool lends = stage == Stage::verify;
  Result<Region> own = Region::make("own", lends ? plan_.own_bytes() : kOwnHeader, Region::Others::write);
  if (!own) {
    return own.failure();
  }
  Result<Zygote*> zygote = service_.recorders();
  if (!zygote) {
    return zygote.failure();
  }
  Result<std::unique_ptr<Subject>> subject =
      Subject::start_mixed(*session_, plan_, {**zygote, built_.path, built_.signatures, *own, threads_, lends});
  if (lends) {
    own_ = std::move(*own);
  }
  return subject;
}

Window CpuEvaluation::audited(Subject& subject, Stand stand, std::size_t set) {
  own_.data()[0] = static_cast<std::byte>(stand);
  subject.write(*session_, set_at(set));
  const std::shared_lock turn(service_.running_);
  return subject.clock().call(kCallTimeout_s);
}

// A set whose right answer is not that of another one; kNone where all answers are alike.
std::size_t CpuEvaluation::another_answer(std::size_t set) const {
  const Layouts& layouts = session_->layouts();
  for (const std::size_t i : batch_->drawn()) {
    if (i != set && compare(layouts.outputs, session_->expected_of(set_at(set)), layouts.outputs,
                            session_->expected_of(set_at(i)), tolerances_.of(set_at(i)))) {
      return i;
    }
  }
  return kNone;
}

bool CpuEvaluation::counts_hold(Subject& subject, int reference) {
  Result<Json> counts = subject.audit_counts(kSetUpTimeout_s);
  if (!counts) {
    return void_for(Stage::verify, counts.failure());
  }
  const int own = counts->value("computing", 0);
  verdict_.evidence["torch_operators"] = own;
  verdict_.evidence["reference_operators"] = reference;
  if (own > 0 && own >= reference) {
    verdict_.fail(Outcome::violation, Stage::verify, Reason::torch_compute,
                  "forward dispatches " + std::to_string(own) + " torch operators that compute, and the reference " +
                      std::to_string(reference) + ": by the rule set mixed there must be fewer");
    return false;
  }
  return true;
}

// Why a call is not right; empty where it is.
std::string CpuEvaluation::not_replayed(const Subject& subject, const Window& window, std::size_t set) const {
  if (window.end != Window::End::done || window.status != 0) {
    return blame_window(window).text;
  }
  const Layouts& layouts = session_->layouts();
  const std::optional<Mismatch> wrong = compare(plan_.outputs, subject.outputs(), layouts.outputs,
                                                session_->expected_of(set_at(set)), tolerances_.of(set_at(set)));
  return wrong ? text_of(*wrong, layouts.inputs, layouts.state) : std::string();
}

bool CpuEvaluation::own_work_matters(Subject& subject) {
  const std::size_t recorded = recorded_set_;
  if (std::string why = not_replayed(subject, audited(subject, Stand::replay, recorded), recorded); !why.empty()) {
    verdict_.fail(Outcome::violation, Stage::verify, Reason::no_own_work,
                  "what its own kernels wrote and the torch operators beside them do not give its answer: " + why);
    return false;
  }
  const std::size_t other = another_answer(recorded);
  if (other != kNone && right(subject, audited(subject, Stand::stale, other), other)) {
    verdict_.fail(
        Outcome::violation, Stage::verify, Reason::no_own_work,
        "the answer is right with what its own kernels computed of other inputs, so that they compute nothing "
        "of it: they copy, write the same for all inputs, or what they write is not used");
    return false;
  }
  tell_share(subject);
  const std::size_t poisoned = other != kNone ? other : recorded;
  if (right(subject, audited(subject, Stand::poison, poisoned), poisoned)) {
    verdict_.fail(
        Outcome::violation, Stage::verify, Reason::no_own_work,
        "the answer is right with poison in the place of what its own kernels compute: they copy, or what they "
        "write is not used");
    return false;
  }
  return true;
}

// The part of a call that the operators alone do not take, by the judge's clock: the quickest of some calls of both
// processes, one after the other. Of no weight: other programs may run beside.
void CpuEvaluation::tell_share(Subject& operators) {
  constexpr double kEnd = std::numeric_limits<double>::infinity();
  double alone_s = kEnd, whole_s = kEnd;
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> most(kMostShare_s);
  for (int i = 0; i < kShareCalls && (i < kFewestShareCalls || std::chrono::steady_clock::now() - begin < most); i++) {
    const Window alone = audited(operators, Stand::skip, 0);
    subject_->write(*session_, set_at(0));
    const std::shared_lock turn(service_.running_);
    const Window whole = subject_->clock().call(kCallTimeout_s);
    alone_s = alone.end == Window::End::done ? std::min(alone_s, alone.seconds) : alone_s;
    whole_s = whole.end == Window::End::done ? std::min(whole_s, whole.seconds) : whole_s;
  }
  if (alone_s < kEnd && whole_s < kEnd && whole_s > 0) {
    verdict_.own_share = std::clamp(1 - alone_s / whole_s, 0.0, 1.0);
  }
}

// After verify(), while its process still stands.
bool CpuEvaluation::audit() {
  if (verdict_.rules != "mixed") {
    return true;
  }
  if (!plan_.uses_torch()) {
    verdict_.own_share = 1;
    return true;
  }
  Result<Zygote*> zygote = service_.recorders();
  const Result<int> reference = zygote ? reference_operators(*session_, **zygote) : Result<int>(zygote.failure());
  if (!reference && reference.failure().code == "uncounted") {
    verdict_.fail(Outcome::violation, Stage::verify, Reason::torch_compute, reference.failure().message);
    return false;
  }
  Result<std::unique_ptr<Subject>> subject =
      reference ? Subject::start_mixed(*session_, plan_, {**zygote, "", built_.signatures, own_, threads_})
                : reference.failure();
  if (!subject) {
    return void_for(Stage::verify, subject.failure());
  }
  if (!counts_hold(**subject, *reference)) {
    return false;
  }
  if (verdict_.evidence["torch_operators"] == 0) {  // it creates and moves, and its own kernels compute
    verdict_.own_share = 1;
    return true;
  }
  const Window ready = (*subject)->clock().ready(kSetUpTimeout_s);
  if (ready.end != Window::End::done || ready.status != 0) {
    verdict_.fail(Stage::verify, blame_set_up(ready));
    return false;
  }
  return own_work_matters(**subject);
}

}  // namespace khost::judge
