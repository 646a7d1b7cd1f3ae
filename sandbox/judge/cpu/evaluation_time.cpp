// Blocks of timed calls, the baselines, and the decision. Whoever times holds the service's right to time; a block also
// holds the device's lease alone, with no call of another subject in flight and everything else of this judge stopped.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "sandbox/jail/quiet.h"
#include "sandbox/judge/cpu/bandwidth.h"
#include "sandbox/judge/cpu/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge {
namespace {

using Steady = std::chrono::steady_clock;

double at_least(double seconds) {
  return std::max(1e-7, seconds);
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace

// The time of one block: what it is given to stop and to lock, it gives back in reverse order.
struct CpuEvaluation::Exclusive {
  explicit Exclusive(CpuEvaluation& evaluation, pid_t subject)
      : owner(evaluation),
        guard(evaluation.lease_->acquire(Lease::Mode::exclusive)),
        running(evaluation.service_.running_),
        quiet(subject, evaluation.service_.host_),
        off(subject_core(), subject_cores(evaluation.threads_)),
        begin(Steady::now()) {}
  // Also of a candidate that fails here: whoever is charged by time pays for failures too.
  ~Exclusive() {
    owner.exclusive_s_ += seconds();
    owner.verdict_.evidence["exclusive_s"] = owner.exclusive_s_;
  }

  double seconds() const { return std::chrono::duration<double>(Steady::now() - begin).count(); }
  bool lasts() const { return seconds() > kBlock_s; }  // so long that others should have their turn

  CpuEvaluation& owner;
  Lease::Guard guard;
  std::unique_lock<std::shared_mutex> running;
  sandbox::Quiet quiet;
  OffTheCores off;
  Steady::time_point begin;
};

// One call for each timed set; an agent's profile goes round its few drawn sets. The time is that of drawn sets. What
// was wrong is looked into when the machine is everybody's again: that may take the reference.
bool CpuEvaluation::candidate_block(Subject& subject, std::vector<double>& samples) {
  const bool verdict = purpose_ == Purpose::verdict;
  std::vector<std::size_t> order = verdict ? timed_order(*batch_, 0, 0) : around(batch_->drawn(), 0, kVisibleCalls);
  if (verdict && wants_unseen_ && !add_unseen(order, kUnseenTimed)) {
    return false;
  }
  wants_unseen_ = verdict;  // of later blocks: this process may tell others of the candidate what it meets
  BlockTimes times;
  std::vector<double> unseen;
  bool clean = true;
  std::optional<Window> wrong;
  std::size_t set = 0;
  const double cost = plan_.uses_torch() ? service_.cost_.python_s : service_.cost_.plan_s;
  {
    Exclusive alone(*this, subject.pid());
    subject.clock().raise_priority();
    for (std::size_t i = 0; i < order.size() && !wrong; i++) {
      set = order[i];
      if (alone.lasts() && times.all().size() >= kFewestTimed && !is_unseen(set)) {
        continue;
      }
      subject.write(*session_, set_at(set));
      alone.quiet.stop_new_processes();
      const Window window = subject.clock().call(kCallTimeout_s);
      if (!right(subject, window, set)) {
        wrong = window;
      }
      if (set_at(set).planted) {
        continue;
      }
      const double seconds = at_least(charged_s(window, service_.cost_.late_s) - cost);
      const double own = at_least(own_s(window, seconds, subject_cores(threads_)));
      if (is_unseen(set)) {
        unseen.push_back(undisturbed(window) ? seconds : own);
        clean = clean && undisturbed(window);
      } else {
        times.add(seconds, undisturbed(window), own);
      }
    }
  }
  if (wrong) {
    return check(subject, *wrong, set, Stage::time);
  }
  steady_ = times.steady();
  dropped_ += times.disturbed();
  samples = times.samples();
  compare_unseen(samples, unseen, clean);
  return true;
}

// A resident process has met the task before; a fresh one starts, compiles and warms up while others may work.
Result<BaselineSubject*> CpuEvaluation::baseline(const std::string& kind, Process process) {
  std::unique_ptr<BaselineSubject>& kept = session_->residents[kept_as(kind)];
  if (process == Process::fresh || !kept) {
    kept.reset();
    Result<Zygote*> zygote = service_.baselines();
    if (!zygote) {
      return zygote.failure();
    }
    const std::string cache = kind == "compile" ? request_["task"].value("compile_cache", "") : "";
    Result<std::unique_ptr<BaselineSubject>> started = BaselineSubject::start(
        **zygote, *session_, batch_->sets[batch_->drawn().front()], {kind, cache, threads_}, kCompileTimeout_s);
    if (!started) {
      return started.failure();
    }
    // Of the first process: later ones find what it compiled.
    if (!cache.empty() && !verdict_.evidence.contains("compile_cache_hits")) {
      verdict_.evidence["compile_cache_hits"] = (*started)->cache_hits();
    }
    kept = std::move(*started);
  }
  return kept.get();
}

// The time of one, from a block that is steady unless there were too many that were not: steady_ says which.
Result<double> CpuEvaluation::baseline_block(const std::string& kind, Process process) {
  if (kind == "self") {
    std::vector<double> samples;
    return fresh_block(samples) ? Result<double>(median(samples)) : Failure{verdict_.detail(), "self"};
  }
  Result<double> block = baseline_windows(kind, process);
  for (int repeat = 0; block && !steady_ && repeat < kMostRepeats; repeat++) {
    block = baseline_windows(kind, Process::resident);
  }
  return block;
}

Result<double> CpuEvaluation::baseline_windows(const std::string& kind, Process process) {
  Result<BaselineSubject*> subject = baseline(kind, process);
  if (!subject) {
    return subject.failure();
  }
  BlockTimes times;
  const std::vector<std::size_t> order = around(batch_->drawn(), 0, kBaselineCalls);
  Exclusive alone(*this, (*subject)->pid());
  (*subject)->clock().raise_priority();
  for (std::size_t i = 0; i < kBaselineCalls && !(alone.lasts() && times.all().size() >= kFewestTimed); i++) {
    (*subject)->write(*session_, batch_->sets[order[i]]);
    alone.quiet.stop_new_processes();
    const Window window = (*subject)->clock().call(kBaselineCallTimeout_s);
    if (window.end != Window::End::done) {
      session_->residents[kept_as(kind)].reset();
      return Failure{"the " + kind + " baseline did not answer", "timeout"};
    }
    if (i < kBaselineWarmUps && !alone.lasts()) {
      continue;
    }
    const double seconds = at_least(window.seconds - (kind == "empty" ? 0 : service_.cost_.python_s));
    times.add(seconds, undisturbed(window), at_least(own_s(window, seconds, subject_cores(threads_))));
  }
  steady_ = times.steady();
  return kind == "empty" ? quantile(times.all(), kCostShare) : median(times.samples());
}

// Whether a baseline needs no more measuring: it is known, or the task has none.
bool CpuEvaluation::settled(const std::string& kind) const {
  return session_->unavailable.count(kept_as(kind)) > 0 || session_->baselines.count(kept_as(kind)) > 0;
}

// False when it failed for a reason of ours, or when the candidate did as its own baseline. What a task cannot do (it
// does not compile) is remembered; what was disturbed is not.
bool CpuEvaluation::measure_baseline(const std::string& kind) {
  if (kind != "self" && settled(kind)) {
    return true;
  }
  std::vector<double> medians;
  for (int i = 0; i < kBaselineProcesses; i++) {
    // A process that is there already was disturbed when it was to be measured before.
    Result<double> block = baseline_block(kind, i == 0 ? Process::resident : Process::fresh);
    if (!block && kind != "self" && (block.failure().code == "bad_task" || block.failure().code == "timeout")) {
      session_->unavailable[kept_as(kind)] = block.failure().message;
      return true;
    }
    if (!block && kind != "self") {
      verdict_.fail(Stage::time, blame_host(block.failure()));
    }
    if (!block) {
      return false;
    }
    if (!steady_ || !service_.cost_.known) {
      disturbed_[kind] = baseline_of({*block});
      return true;
    }
    if (kind != "compile" || i > 0) {  // the first process compiles; those that load its cache are timed
      medians.push_back(*block);
    }
  }
  (kind == "self" ? self_ : session_->baselines[kept_as(kind)]) = baseline_of(medians);
  return true;
}

// What a window costs by itself, with subjects of ours that do nothing. The slack is the most that an acknowledgement
// before its time can gain: the way of an acknowledgement, which is subtracted from everybody, and what a process may
// use until it is stopped before that is charged. Nothing is known for good where others disturbed it.
void CpuEvaluation::calibrate() {
  if (service_.cost_.known) {
    return;
  }
  bool steady = calibrate_plan();
  for (int repeat = 0; !steady && repeat < kMostRepeats; repeat++) {
    steady = calibrate_plan();
  }
  Result<double> python = baseline_block("empty", Process::fresh);
  session_->residents[kept_as("empty")].reset();
  service_.cost_.python_s = python ? *python : service_.cost_.plan_s;
  service_.cost_.known = steady && (!python || steady_);
}

// Whether its windows were undisturbed, as a block's that counts. The process is gone before anybody else is timed.
bool CpuEvaluation::calibrate_plan() {
  sandbox::Plan nothing;
  nothing.outputs = sandbox::Manifest::parse({{"storages", Json::array()}, {"tree", {{"kind", "none"}}}}).value();
  Result<std::unique_ptr<Subject>> subject = Subject::start(nullptr, nothing, "libm.so.6", 1, service_.limits_);
  if (!subject || (*subject)->clock().ready(kSetUpTimeout_s).end != Window::End::done) {
    return false;
  }
  BlockTimes times;
  std::vector<double> reply, late;
  Exclusive alone(*this, (*subject)->pid());
  (*subject)->clock().raise_priority();
  for (int i = 0; i < kCalibrationCalls; i++) {
    const Window window = (*subject)->clock().call(kCallTimeout_s);
    if (window.end != Window::End::done) {
      continue;
    }
    times.add(window.seconds, undisturbed(window), own_s(window, window.seconds, 1));
    if (undisturbed(window) || i + kFewestCleanReplies > kCalibrationCalls) {
      reply.push_back(window.reply_s);
      late.push_back(window.late_s);
    }
  }
  service_.cost_.plan_s = quantile(times.all(), kCostShare);
  service_.cost_.late_s = quantile(late, 0.9);
  service_.cost_.slack_s = quantile(reply, 0.9) + service_.cost_.late_s;
  return times.steady();
}

const Baseline* CpuEvaluation::cached(const std::string& kind) {
  if (const auto disturbed = disturbed_.find(kind); disturbed != disturbed_.end()) {
    return &disturbed->second;
  }
  if (kind == "self") {
    return &self_;
  }
  const auto found = session_->baselines.find(kept_as(kind));
  return found == session_->baselines.end() ? nullptr : &found->second;
}

std::optional<double> CpuEvaluation::bracket_block() {
  std::vector<double> samples;
  return fresh_block(samples) ? std::optional(median(samples)) : std::nullopt;
}

// The candidate as its own baseline failed, which the verdict says.
bool CpuEvaluation::goes_on_without(const std::string& kind, const Failure&) {
  return kind != "self";
}

// What the candidate's first block says against each baseline, and brackets for those that it does not settle; nothing
// where a block was disturbed. False only when the candidate failed in one of them, or as its own baseline.
bool CpuEvaluation::decide(const std::vector<double>& samples) {
  Decision decision = read_cached({}, samples, steady_candidate_);
  if (purpose_ == Purpose::profile) {
    return true;
  }
  steady_ = steady_candidate_ && disturbed_.empty() && service_.cost_.known;
  const bool passed = brackets(decision);
  if (!steady_) {
    verdict_.unresolved(SpeedReason::disturbed);
  }
  decision.write(verdict_);
  return passed;
}

// Whether the time is less than reading what must be read takes. First by all bytes, which costs nothing to know; only
// when that looks impossible the reference is asked which tensors matter.
bool CpuEvaluation::below_floor(double seconds) {
  const Layouts& layouts = session_->layouts();
  const std::size_t all = layouts.inputs.region_bytes + layouts.state.region_bytes;
  double rate = 0;
  for (const bool again : {false, true}) {
    rate = threads_ * kFloorMargin * service_.read_rate(all, again);
    if (rate <= 0 || (seconds + verdict_.slack_s) * rate >= static_cast<double>(all)) {
      return false;
    }
  }
  Result<Child> child = zygote_->spawn();
  const Json request = {{"kind", "compulsory"}, {"source", session_->source()}, {"seed", batch_->sets[0].seed}};
  Result<Json> answer = child ? child->call(request, {}, kReferenceTimeout_s) : child.failure();
  if (!answer) {
    return false;
  }
  const double bytes = answer->value("bytes", 0.0);
  verdict_.evidence["floor"] = {{"bytes", bytes}, {"read_rate", rate}, {"seconds", bytes / rate}};
  return (seconds + verdict_.slack_s) * rate < bytes;
}

bool CpuEvaluation::time() {
  const std::scoped_lock turn(service_.timing_);
  Result<Lease> lease = Lease::open(service_.lease_path_);
  if (!lease) {
    verdict_.fail(Outcome::void_, Stage::time, Reason::lease, lease.failure().message);
    return false;
  }
  lease_ = &*lease;
  service_.retire_residents();
  const std::vector<std::string> kinds = opponents();
  bool known = service_.cost_.known;
  for (const std::string& kind : kinds) {
    known = known && settled(kind);
  }
  if (!known) {
    subject_.reset();  // no candidate lives while a baseline is timed
    calibrate();
    for (const std::string& kind : kinds) {
      if (!measure_baseline(kind)) {
        return false;
      }
    }
    service_.remember(*session_);
    subject_ = fresh(Stage::time);
    if (!subject_) {
      return false;
    }
  }
  verdict_.slack_s = service_.cost_.slack_s;
  std::vector<double> samples;
  if (!steady_block(std::move(subject_), samples)) {
    return false;
  }
  steady_candidate_ = steady_;
  bool impossible = purpose_ == Purpose::verdict && below_floor(median(samples));
  if (impossible) {  // once more, in another process
    std::vector<double> again;
    if (!fresh_block(again)) {
      return false;
    }
    samples = again;
    steady_candidate_ = steady_;
    impossible = below_floor(median(samples));
  }
  verdict_.times["candidate_s"] = median(samples);
  verdict_.evidence["samples"] = samples;
  if (impossible) {
    verdict_.fail(Outcome::suspect, Stage::time, Reason::floor,
                  "the time is less than reading the inputs takes on this machine");
    return false;
  }
  if (!decide(samples)) {
    return false;
  }
  verdict_.evidence["disturbed_windows"] = dropped_;
  return true;
}

}  // namespace khost::judge
