// The candidate's timed calls, and the decision against the baselines.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "sandbox/judge/cuda/calibration.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/statistics.h"

namespace khost::judge::gpu {
namespace {

constexpr const char* kClocks[] = {"sm_mhz", "memory_mhz"};
constexpr double kSameClock = 0.005;
// How much longer than on an idle device an opening may take before another kernel must be resident. A subject whose
// second stream waits for its first is given one slice in vain, 2.07 ms on an H200; one resident warp makes it 2.35 ms,
// a full grid more than 4.
constexpr double kResident_s = 2.2e-3;
// One opening of so many may be busy, because a device that others use as well is busy now and then.
constexpr int kOneBusyOf = 10;

}  // namespace

bool GpuEvaluation::candidate_block(Candidate& subject, std::vector<double>& samples, std::size_t most) {
  const double timeout = std::max(kTimedCallLeast_s, kTimedCallFactor * longest_call_s_);
  // A verdict's call has a set of its own; an agent's profile goes round its few drawn sets.
  const std::size_t first = blocks_++ * kBracketCalls;
  const std::vector<std::size_t> order =
      purpose_ == Purpose::verdict ? timed_order(*batch_, first, most) : around(batch_->drawn(), first, kVisibleCalls);
  int busy = 0, calls = 0;
  for (const std::size_t i : order) {
    Turn turn = subject.queued(*batch_, i, timeout);
    const DeviceTurn seen{turn.lost,  turn.window.end != Window::End::timeout || turn.open_s > 0,
                          turn.woke,  turn.wrong,
                          turn.loose, subject.most_loose(),
                          kSamples};
    if (const std::optional<Finding> unopened = blame_unopened(seen)) {
      verdict_.fail(Stage::time, *unopened);
      return false;
    }
    if (!check(subject, turn.window, i, Stage::time)) {
      return false;
    }
    if (const std::optional<Finding> early = blame_acknowledged(seen)) {
      verdict_.fail(Stage::time, *early);
      return false;
    }
    calls++;
    openings_.push_back(turn.open_s - task_->idle_open_s);
    const bool was_busy = turn.busy || turn.open_s > task_->idle_open_s + kResident_s;
    busy += was_busy;
    if (was_busy || batch_->sets[i].planted) {
      continue;
    }
    const double own_s = turn.window.seconds - (python_ ? gpu_.cost_.candidate_s : gpu_.cost_.plan_s);
    samples.push_back(without(own_s, task_->cost.closing_s + task_->cost.flush_s));
  }
  busy_openings_ += busy;
  windows_ += calls;
  verdict_.evidence["busy_openings"] = {busy_openings_, windows_};
  verdict_.evidence["opening_extra_s"] = median(openings_);
  too_busy_ = kOneBusyOf * busy > calls || samples.empty();
  return true;
}

// Times a block whose openings find the device idle. Disturbance by others does not repeat: a candidate that is busy
// too often in two processes is not excused.
bool GpuEvaluation::idle_block(std::unique_ptr<Candidate> subject, std::vector<double>& samples, std::size_t most) {
  for (const bool first : {true, false}) {
    samples.clear();
    if (!subject || !candidate_block(*subject, samples, most)) {
      return false;
    }
    subject.reset();
    if (!too_busy_) {
      return true;
    }
    subject = first ? fresh_and_warm() : nullptr;
  }
  verdict_.fail(Stage::time, blame_busy(*std::max_element(openings_.begin(), openings_.end())));
  return false;
}

std::unique_ptr<Candidate> GpuEvaluation::fresh_and_warm() {
  std::unique_ptr<Candidate> subject = fresh(Stage::time);
  return subject && warm(*subject, Stage::time) ? std::move(subject) : nullptr;
}

// An idle subject from the pool, or a new one. The caller holds the device lock.
Result<IdleSubject> GpuEvaluation::idle_subject() {
  Result<IdleSubject> ready = ready_idle_subject(0);
  return ready ? std::move(ready) : IdleSubject::open(*device_, queues_);
}

Status GpuEvaluation::calibrate() {
  if (gpu_.cost_.known) {
    return ok();
  }
  Result<GpuCost> cost = calibrate_plans(*device_, gpu_.place_.root, [this] { return idle_subject(); });
  if (!cost) {
    return cost.failure();
  }
  gpu_.cost_ = *cost;
  gpu_.cost_.bandwidth = device_->bandwidth();
  Result<std::unique_ptr<GpuBaseline>> empty = start_baseline("empty");
  Result<double> python = empty ? timed_block("empty", **empty, true) : empty.failure();
  if (!python) {
    return python.failure();
  }
  gpu_.cost_.python_s = *python;
  gpu_.cost_.known = true;
  return ok();
}

const Baseline* GpuEvaluation::cached(const std::string& kind) {
  const auto found = session_->baselines.find(kind);
  return found == session_->baselines.end() ? nullptr : &found->second;
}

// A block of the resident baseline takes a tenth of a second, brackets with their processes take seconds; most
// candidates that no cached reading settles are about as fast as the baseline.
void GpuEvaluation::compare_beside(const std::vector<std::string>& asked) {
  for (const std::string& kind : asked) {
    if (decision_->wants_beside(kind) && resident(kind) != nullptr) {
      if (const Result<double> block = resident_block(kind)) {
        decision_->beside(kind, *block);
      }
    }
  }
}

bool GpuEvaluation::beside() {
  for (auto& [kind, loaded] : gpu_.pending_baselines_.take(this)) {
    if (resident(kind) != nullptr || loaded.empty()) {
      continue;  // another evaluation has started one meanwhile
    }
    if (loaded.front()->ready(kBaselineReadyTimeout_s) && timed_block(kind, *loaded.front(), true)) {
      task_->residents[kind] = std::move(loaded.front());  // otherwise resident_block() reports its error
    }
  }
  loading_slot_ = {};
  if (same_clocks()) {  // seconds have gone by
    compare_beside(absent_);
  }
  return true;
}

bool GpuEvaluation::same_clocks() const {
  const Json now = device_->state(), then = verdict_.evidence.value("after", Json::object());
  return std::all_of(std::begin(kClocks), std::end(kClocks), [&](const char* clock) {
    const double before = then.value(clock, 0.0), after = now.value(clock, 0.0);
    return before > 0 && std::abs(after - before) <= kSameClock * before;
  });
}

bool GpuEvaluation::take_brackets() {
  return brackets(*decision_);
}

std::optional<double> GpuEvaluation::bracket_block() {
  std::vector<double> samples;
  return idle_block(fresh_and_warm(), samples, kBracketCalls) ? std::optional(median(samples)) : std::nullopt;
}

bool GpuEvaluation::goes_on_without(const std::string& kind, const Failure& why) {
  return skips_baseline(kind, why) || void_for(Stage::time, why);
}

bool GpuEvaluation::all_is_known() const {
  return gpu_.cost_.known && (!python_ || gpu_.cost_.candidate_s > 0) && task_->idle_open_s > 0 && missing().empty();
}

// Makes the measurements that are made once for a judge and once for a task.
Status GpuEvaluation::prepare() {
  Baselines loaded = gpu_.pending_baselines_.take(this);  // empty if another evaluation ended them
  const Session& session = *task_->session;
  const Result<double> idle = preparing("opening", [&] { return measure_idle_open(*device_, session, *batch_); });
  if (!idle) {
    return idle.failure();
  }
  if (Status calibrated = preparing("clock", [this] { return calibrate(); }); !calibrated) {
    return calibrated;
  }
  if (Status calibrated = preparing("python", [this] { return calibrate_python(); }); !calibrated) {
    return calibrated;
  }
  if (task_->idle_open_s == 0) {
    const auto blanks = [this] { return idle_subject(); };
    const auto measure = [&] {
      return measure_task_cost(*device_, gpu_.place_.root, blanks, session, *batch_, tolerances_);
    };
    Result<TaskCost> cost = preparing("task", measure);
    if (cost && !cost->measured) {
      loaded.clear();
      gpu_.give_up_others(task_);
      cost = preparing("task", measure);
    }
    if (!cost) {
      return cost.failure();
    }
    task_->cost = *cost;
  }
  task_->idle_open_s = *idle;
  return measure_baselines(std::move(loaded));
}

bool GpuEvaluation::time() {
  gpu_.tasks_.retire_residents(task_, device_->bytes() / kShareKept);
  const Session& session = *task_->session;
  if (!all_is_known()) {
    subject_.reset();
    if (Status status = prepare(); !status) {
      return own_zygote_ && !own_zygote_->alive() ? killed_its_zygote(Stage::time)
                                                  : void_for(Stage::time, status.failure());
    }
  }
  measuring_ = {};
  loading_slot_ = {};
  if (!subject_) {
    subject_ = fresh_and_warm();
  }
  verdict_.slack_s = gpu_.cost_.slack_s;
  verdict_.evidence["clock"] = gpu_.cost_.evidence;
  verdict_.evidence["clock"]["closing_s"] = task_->cost.closing_s;
  verdict_.evidence["clock"]["flush_s"] = task_->cost.flush_s;
  verdict_.evidence["before"] = device_->state();
  if (!idle_block(std::move(subject_), samples_, 0)) {
    return false;
  }
  verdict_.evidence["after"] = device_->state();
  verdict_.times["candidate_s"] = median(samples_);
  verdict_.evidence["samples"] = samples_;
  if (gpu_.cost_.bandwidth > 0) {
    // Everything once through the memory; no verdict rests on it, since a task need not read all of its inputs.
    const Layouts& layouts = session.layouts();
    const double bytes =
        static_cast<double>(layouts.inputs.region_bytes + layouts.state.region_bytes + layouts.outputs.region_bytes);
    verdict_.evidence["floor_s"] = bytes / gpu_.cost_.bandwidth;
    verdict_.evidence["bandwidth"] = gpu_.cost_.bandwidth;
  }
  decision_ = read_cached({.beside = true}, samples_, true);
  if (purpose_ == Purpose::profile) {
    return true;  // brackets decide a verdict; an agent sees the times
  }
  compare_beside(decision_->open());
  for (const std::string& kind : decision_->open()) {
    if (resident(kind) == nullptr) {
      absent_.push_back(kind);
    }
  }
  return true;
}

}  // namespace khost::judge::gpu
