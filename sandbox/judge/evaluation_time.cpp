// Blocks of timed calls, the baselines, and the decision. Whoever times holds the service's right to time; a block also
// holds the device's lease alone, with no call of another subject in flight and everything else of this judge stopped.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "sandbox/judge/bandwidth.h"
#include "sandbox/judge/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/quiet.h"

namespace khost::judge {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kSetUpTimeout_s = 20;
constexpr double kCallTimeout_s = 5;
constexpr double kCompileTimeout_s = 180;
constexpr double kReferenceTimeout_s = 60;
constexpr int kBaselineProcesses = 3;
constexpr int kMostTries = 3;  // measurements of a baseline, and calibrations, on a machine that is never quiet
constexpr std::size_t kBaselineCalls = 25, kBaselineWarmUp = 3;
constexpr std::size_t kVisibleCalls = 12;
constexpr std::size_t kFewestClean = 5;
constexpr int kCalibrationCalls = 40, kFewCalls = 5;
// Of windows that do nothing: on a busy machine most are longer than their cost, and what is subtracted from everybody
// must rather be too little than too much.
constexpr double kCostShare = 0.05;
constexpr double kUnresolved = 20;  // a baseline shorter than so many slacks says little about speed
constexpr double kFloorMargin = 1.05;

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
struct Evaluation::Exclusive {
  explicit Exclusive(Evaluation& evaluation, pid_t subject)
      : owner(evaluation),
        guard(evaluation.lease_->acquire(Lease::Mode::exclusive)),
        running(evaluation.service_.running_),
        quiet(subject, evaluation.service_.host_),
        off(subject_core(), subject_cores(evaluation.threads_)),
        begin(Steady::now()) {}
  ~Exclusive() { owner.exclusive_s_ += std::chrono::duration<double>(Steady::now() - begin).count(); }

  Evaluation& owner;
  Lease::Guard guard;
  std::unique_lock<std::shared_mutex> running;
  sandbox::Quiet quiet;
  OffTheCores off;
  Steady::time_point begin;
};

// One call for each timed set; an agent's profile goes round its few sets. What was wrong is looked into when the
// machine is everybody's again: that may take the reference.
bool Evaluation::candidate_block(Subject& subject, std::vector<double>& samples) {
  const bool secret = purpose_ == Purpose::verdict;
  const std::size_t first = secret ? verification_sets_ : 0;
  const std::size_t sets = batch_->sets.size() - first;
  const std::size_t calls = secret ? sets : kVisibleCalls;
  std::vector<double> clean, all;
  std::optional<Window> wrong;
  std::size_t set = first;
  {
    Exclusive alone(*this, subject.pid());
    subject.clock().favour();
    for (std::size_t i = 0; i < calls && !wrong; i++) {
      set = first + i % sets;
      subject.write(*session_, batch_->sets[set]);
      alone.quiet.look_again();
      const Window window = subject.clock().call(kCallTimeout_s);
      if (!right(subject, window, set)) {
        wrong = window;
      }
      const double late = std::max(0.0, window.late_s - service_.cost_.late_s) / threads_;
      const double net = at_least(window.seconds + late - service_.cost_.plan_s);
      all.push_back(net);
      if (undisturbed(window)) {
        clean.push_back(net);
      } else {
        dropped_++;
      }
    }
  }
  if (wrong) {
    return check(subject, *wrong, set, Stage::time);
  }
  steady_ = 2 * clean.size() >= all.size();
  samples = clean.size() >= kFewestClean ? clean : all;
  return true;
}

bool Evaluation::fresh_block(std::vector<double>& samples) {
  const std::unique_ptr<Subject> again = fresh(Stage::time);
  return again && candidate_block(*again, samples);
}

// A resident process has met the task before; a fresh one starts, compiles and warms up while others may work.
Result<BaselineSubject*> Evaluation::baseline(const std::string& kind, Process process) {
  std::unique_ptr<BaselineSubject>& kept = session_->residents[kind];
  if (process == Process::fresh || !kept) {
    kept.reset();
    Result<Zygote*> zygote = service_.baselines();
    if (!zygote) {
      return zygote.failure();
    }
    const std::string cache = kind == "compile" ? request_["task"].value("compile_cache", "") : "";
    Result<std::unique_ptr<BaselineSubject>> started =
        BaselineSubject::start(**zygote, *session_, batch_->sets[0], kind, cache, kCompileTimeout_s);
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

Result<double> Evaluation::baseline_block(const std::string& kind, Process process) {
  if (kind == "self") {
    std::vector<double> samples;
    return fresh_block(samples) ? Result<double>(median(samples)) : Failure{verdict_.detail(), "self"};
  }
  Result<BaselineSubject*> subject = baseline(kind, process);
  if (!subject) {
    return subject.failure();
  }
  std::vector<double> clean, all;
  Exclusive alone(*this, (*subject)->pid());
  (*subject)->clock().favour();
  for (std::size_t i = 0; i < kBaselineCalls; i++) {
    (*subject)->write(*session_, batch_->sets[i % batch_->sets.size()]);
    alone.quiet.look_again();
    const Window window = (*subject)->clock().call(60);
    if (window.end != Window::End::done) {
      session_->residents[kind].reset();
      return Failure{"the " + kind + " baseline did not answer", "timeout"};
    }
    if (i < kBaselineWarmUp) {
      continue;
    }
    const double net = at_least(window.seconds - (kind == "empty" ? 0 : service_.cost_.python_s));
    all.push_back(net);
    if (undisturbed(window)) {
      clean.push_back(net);
    }
  }
  steady_ = 2 * clean.size() >= all.size();
  const std::vector<double>& kept = clean.size() >= kFewestClean ? clean : all;
  return kind == "empty" ? quantile(all, kCostShare) : median(kept);
}

// Whether a baseline needs no more measuring: it was steady, the machine never is, or the task has none.
bool Evaluation::settled(const std::string& kind) const {
  const auto known = session_->baselines.find(kind);
  return session_->unavailable.count(kind) > 0 ||
         (known != session_->baselines.end() && (known->second.steady || known->second.tries >= kMostTries));
}

// False when it failed for a reason of ours, or when the candidate did as its own baseline. What a task cannot do (it
// does not compile) is remembered.
bool Evaluation::measure_baseline(const std::string& kind) {
  const auto known = session_->baselines.find(kind);
  const int tries = known == session_->baselines.end() ? 0 : known->second.tries;
  if (kind != "self" && settled(kind)) {
    return true;
  }
  std::vector<double> medians;
  bool steady = true;
  for (int i = 0; i < kBaselineProcesses; i++) {
    Result<double> block = baseline_block(kind, Process::fresh);
    if (!block && kind != "self" && (block.failure().code == "bad_task" || block.failure().code == "timeout")) {
      session_->unavailable[kind] = block.failure().message;
      return true;
    }
    if (!block && kind != "self") {
      verdict_.fail(Stage::time, blame_host(block.failure()));
    }
    if (!block) {
      return false;
    }
    steady = steady && steady_;
    if (kind != "compile" || i > 0) {  // the first process compiles; those that load its cache are timed
      medians.push_back(*block);
    }
  }
  Baseline& kept = kind == "self" ? self_ : session_->baselines[kind];
  kept = baseline_of(medians);
  kept.steady = steady;
  kept.tries = tries + 1;
  return true;
}

// What a window costs by itself, with subjects of ours that do nothing. The slack is the most that an acknowledgement
// before its time can gain: the way of an acknowledgement, which is subtracted from everybody, and what a process may
// use until it is stopped before that is charged.
void Evaluation::calibrate() {
  if (service_.cost_.known) {
    return;
  }
  sandbox::Plan nothing;
  nothing.outputs = sandbox::Manifest::parse({{"storages", Json::array()}, {"tree", {{"kind", "none"}}}}).value();
  Result<std::unique_ptr<Subject>> subject = Subject::start(nullptr, nothing, "libm.so.6", 1, service_.limits_);
  if (subject && (*subject)->clock().ready(kSetUpTimeout_s).end == Window::End::done) {
    std::vector<double> seconds, reply, late;
    int clean = 0;
    Exclusive alone(*this, (*subject)->pid());
    (*subject)->clock().favour();
    for (int i = 0; i < kCalibrationCalls; i++) {
      const Window window = (*subject)->clock().call(kCallTimeout_s);
      if (window.end == Window::End::done) {
        seconds.push_back(window.seconds);
        clean += undisturbed(window) ? 1 : 0;
      }
      if (window.end == Window::End::done && (undisturbed(window) || i + kFewCalls > kCalibrationCalls)) {
        reply.push_back(window.reply_s);
        late.push_back(window.late_s);
      }
    }
    service_.cost_.plan_s = quantile(seconds, kCostShare);
    service_.cost_.late_s = quantile(late, 0.9);
    service_.cost_.slack_s = quantile(reply, 0.9) + service_.cost_.late_s;
    // Else the machine was busy: once more with the next verdict.
    service_.cost_.known = 2 * clean >= kCalibrationCalls || ++service_.cost_.tries >= kMostTries;
  }
  subject = Failure{"", ""};  // it is gone before anybody else is timed
  Result<double> python = baseline_block("empty", Process::fresh);
  session_->residents["empty"].reset();
  service_.cost_.python_s = python ? *python : service_.cost_.plan_s;
}

std::vector<std::string> Evaluation::opponents() const {
  if (request_.value("against", "") == "self") {
    return {"self"};
  }
  return {"eager", "compile"};
}

// Clear cases need no live baseline; the others take brackets of baseline, candidate in a fresh process, baseline.
// False only when the candidate failed in one of them.
bool Evaluation::decide_on(const std::string& kind, const std::vector<double>& samples) {
  const auto found = session_->baselines.find(kind);
  if (kind != "self" && found == session_->baselines.end()) {
    verdict_.evidence[kind + "_unavailable"] = session_->unavailable[kind];
    return true;
  }
  const Baseline& known = kind == "self" ? self_ : found->second;
  const double slack = verdict_.slack_s;
  verdict_.times[kind + "_s"] = known.seconds;
  verdict_.speedup[kind] = known.seconds / verdict_.times["candidate_s"];
  if (purpose_ == Purpose::profile) {
    return true;
  }
  if (known.seconds < kUnresolved * slack) {
    verdict_.evidence["unresolved"].push_back(kind);
    verdict_.unresolved(SpeedReason::short_baseline);
  }
  std::optional<bool> faster;
  if (known.steady && steady_candidate_) {
    faster = clear_case(known, samples, slack);
  }
  std::vector<double> brackets;
  Result<double> before = faster ? Result<double>(0.0) : baseline_block(kind, Process::resident);
  if (kind == "self" && !before) {
    return false;  // the candidate failed, and the verdict says how
  }
  while (!faster && before && brackets.size() < static_cast<std::size_t>(kMostBrackets)) {
    std::vector<double> block;
    if (!fresh_block(block)) {
      return false;
    }
    Result<double> after = baseline_block(kind, Process::resident);
    if (!after && kind == "self") {
      return false;
    }
    if (!after) {
      break;
    }
    brackets.push_back(bracket(*before, median(block), *after, slack));
    faster = decide(brackets);
    before = after;
  }
  verdict_.faster[kind] = faster.value_or(false);
  verdict_.evidence["brackets"][kind] = brackets;
  return true;
}

// Whether the time is less than reading what must be read takes. First by all bytes, which costs nothing to know; only
// when that looks impossible the reference is asked which tensors matter.
bool Evaluation::below_floor(double seconds) {
  const Layouts& layouts = session_->layouts();
  const double all = static_cast<double>(layouts.inputs.region_bytes + layouts.state.region_bytes);
  const double rate =
      threads_ * kFloorMargin * service_.read_rate(layouts.inputs.region_bytes + layouts.state.region_bytes);
  if (rate <= 0 || (seconds + verdict_.slack_s) * rate >= all) {
    return false;
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

bool Evaluation::time() {
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
  if (!candidate_block(*subject_, samples)) {
    return false;
  }
  steady_candidate_ = steady_;
  subject_.reset();
  bool impossible = purpose_ == Purpose::verdict && below_floor(median(samples));
  if (impossible) {  // once more, in another process
    std::vector<double> again;
    if (!fresh_block(again)) {
      return false;
    }
    samples = again;
    impossible = below_floor(median(samples));
  }
  verdict_.times["candidate_s"] = median(samples);
  verdict_.evidence["samples"] = samples;
  if (impossible) {
    verdict_.fail(Outcome::suspect, Stage::time, Reason::floor,
                  "the time is less than reading the inputs takes on this machine");
    return false;
  }
  for (const std::string& kind : kinds) {
    if (!decide_on(kind, samples)) {
      return false;
    }
  }
  if (verdict_.faster.empty() && purpose_ == Purpose::verdict) {
    verdict_.unresolved(SpeedReason::no_baseline);
  }
  verdict_.measured();
  verdict_.evidence["disturbed_windows"] = dropped_;
  verdict_.evidence["exclusive_s"] = exclusive_s_;
  return true;
}

}  // namespace khost::judge
