// Windows of the candidate, and what they decide beside the baselines'.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "sandbox/judge/cuda/calibration.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/statistics.h"

namespace khost::judge::gpu {
namespace {

constexpr double kLeastCallTimeout = 1;
constexpr const char* kClocks[] = {"sm_mhz", "memory_mhz"};
constexpr double kSameClock = 0.005;
constexpr double kReadyTimeout_s = 30;  // of a baseline that has loaded what was compiled
constexpr double kResolved = 20;        // slacks that a time must be long to say anything about speed
// How much longer than alone an opening may take before somebody is resident. A subject whose second stream waits for
// its first is given one slice in vain, 2.07 ms on an H200; one resident warp makes it 2.35 ms, a full grid more than
// 4.
constexpr double kResident_s = 2.2e-3;

}  // namespace

bool Evaluation::candidate_block(Candidate& subject, std::vector<double>& samples, std::size_t most) {
  const double timeout = std::max(kLeastCallTimeout, 10 * longest_call_s_);
  // A verdict's call has a set of its own; an agent's profile goes round its few sets.
  const bool secret = purpose_ == Purpose::verdict;
  const std::size_t timed = batch_->sets.size() - verified_;
  const std::size_t wanted = !secret ? kVisibleCalls : most > 0 ? std::min(most, timed) : timed;
  const std::size_t first = blocks_++ * kBracketCalls;
  int busy = 0, calls = 0;
  for (std::size_t call = 0; call < wanted; call++) {
    const std::size_t i = verified_ + (first + call) % timed;
    Turn turn = subject.queued(*batch_, i, timeout);
    if (turn.lost) {
      verdict_.fail(Outcome::crash, Stage::time, Reason::device, "the GPU did not come back while the candidate ran");
      return false;
    }
    if (turn.window.end == Window::End::timeout && turn.open_s == 0) {
      verdict_.fail(Outcome::violation, Stage::time, Reason::synchronises,
                    "the candidate did not return before its inputs were there: it waits for the device, allocates or "
                    "loads something in every call");
      return false;
    }
    if (!check(subject, turn.window, i, Stage::time)) {
      return false;
    }
    if (turn.woke) {
      verdict_.fail(Outcome::violation, Stage::time, Reason::ran_while_frozen,
                    "the process woke up while it was to stand");
      return false;
    }
    if (turn.wrong > 0) {
      verdict_.fail(Outcome::wrong, Stage::time, Reason::early_acknowledgement,
                    std::to_string(turn.wrong) + " of " + std::to_string(kSamples) +
                        " sampled elements were not there when the call was acknowledged");
      return false;
    }
    calls++;
    openings_.push_back(turn.open_s - task_->idle_open_s);
    busy += turn.busy || turn.open_s > task_->idle_open_s + kResident_s;
    const double own_s = turn.window.seconds - (python_ ? gpu_.cost_.candidate_s : gpu_.cost_.plan_s);
    samples.push_back(without(own_s, task_->cost.closing_s + task_->cost.flush_s));
  }
  busy_openings_ += busy;
  windows_ += calls;
  verdict_.evidence["busy_openings"] = {busy_openings_, windows_};
  verdict_.evidence["opening_extra_s"] = median(openings_);
  if (2 * busy > calls) {
    verdict_.fail(Outcome::violation, Stage::time, Reason::device_busy,
                  "something of the candidate stays on the device between its calls: opening one took " +
                      std::to_string(std::lround(median(openings_) * 1e6)) + " us longer than alone");
    return false;
  }
  return true;
}

// One that stands ready, or a new one: for whoever has the device alone.
Result<Blank> Evaluation::blank_at_hand() {
  Result<Blank> ready = ready_blank(0);
  return ready ? std::move(ready) : Blank::open(*device_);
}

Status Evaluation::calibrate() {
  if (gpu_.cost_.known) {
    return ok();
  }
  Result<GpuCost> cost = calibrate_plans(*device_, gpu_.place_.root, [this] { return blank_at_hand(); });
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

// What one block of the candidate says against a baseline; what it does not settle is left to brackets.
void Evaluation::compare_with(const std::string& kind) {
  const Session& session = *task_->session;
  const auto found = session.baselines.find(kind);
  if (found == session.baselines.end()) {
    verdict_.evidence[kind + "_unavailable"] = session.unavailable.at(kind);
    return;
  }
  const double slack = gpu_.cost_.slack_s;
  verdict_.times[kind + "_s"] = found->second.seconds;
  verdict_.speedup[kind] = found->second.seconds / median(samples_);
  if (purpose_ == Purpose::profile) {
    return;  // brackets decide a verdict; an agent sees the times
  }
  const bool resolved = found->second.seconds >= kResolved * slack;
  const std::optional<bool> faster = resolved ? clear_case(found->second, samples_, slack) : std::optional(false);
  verdict_.faster[kind] = faster.value_or(false);
  if (!resolved) {
    verdict_.evidence["unresolved"].push_back(kind);
    verdict_.unresolved(SpeedReason::short_baseline);
  } else {
    verdict_.evidence["brackets"][kind] = Json::array();
  }
  if (!faster) {
    close_.push_back(kind);
  }
}

// A block of the resident baseline takes a tenth of a second, brackets with their processes take seconds; most
// candidates that no cached reading settles are about as fast as the baseline.
bool Evaluation::slower_beside(const std::string& kind) {
  if (resident(kind) == nullptr) {
    return false;
  }
  const Result<double> beside = resident_block(kind);
  if (beside) {
    verdict_.evidence["beside_s"][kind] = *beside;
  }
  return beside && judge::slower_beside(*beside, task_->session->baselines.at(kind), samples_, gpu_.cost_.slack_s);
}

bool Evaluation::beside() {
  for (auto& [kind, loaded] : gpu_.arrivals_.take(this)) {
    if (resident(kind) != nullptr || loaded.empty()) {
      continue;  // somebody else's came first
    }
    if (loaded.front()->ready(kReadyTimeout_s) && timed_block(kind, *loaded.front(), true)) {
      task_->residents[kind] = std::move(loaded.front());  // or else brackets say what is wrong with it
    }
  }
  place_ = {};
  if (same_clocks()) {  // seconds have gone by
    settle(absent_);
  }
  return true;
}

bool Evaluation::same_clocks() const {
  const Json now = device_->state(), then = verdict_.evidence.value("after", Json::object());
  return std::all_of(std::begin(kClocks), std::end(kClocks), [&](const char* clock) {
    const double before = then.value(clock, 0.0), after = now.value(clock, 0.0);
    return before > 0 && std::abs(after - before) <= kSameClock * before;
  });
}

// Of these, baselines that the candidate is slower than need no bracket.
void Evaluation::settle(const std::vector<std::string>& asked) {
  for (const std::string& kind : asked) {
    if (slower_beside(kind)) {
      close_.erase(std::find(close_.begin(), close_.end(), kind));
    }
  }
}

// Blocks of the baselines, a block of the candidate in a fresh process, blocks of the baselines, and so on: a block
// of the candidate stands in a bracket of each baseline.
bool Evaluation::brackets() {
  struct Open {
    std::string kind;
    double before;
    std::vector<double> brackets;
  };
  std::vector<Open> open;
  for (const std::string& kind : close_) {
    Result<double> before = resident_block(kind);
    if (before) {
      open.push_back({kind, *before, {}});
    } else if (!goes_without(kind, before.failure())) {
      return void_for(Stage::time, before.failure());
    }
  }
  for (int i = 0; i < kMostBrackets && !open.empty(); i++) {
    std::unique_ptr<Candidate> again = fresh(Stage::time);
    std::vector<double> block;
    if (!again || !warm(*again, Stage::time) || !candidate_block(*again, block, kBracketCalls)) {
      return false;
    }
    again.reset();
    for (auto one = open.begin(); one != open.end();) {
      Result<double> after = resident_block(one->kind);
      std::optional<bool> faster;
      if (!after && !goes_without(one->kind, after.failure())) {
        return void_for(Stage::time, after.failure());
      }
      if (after) {
        one->brackets.push_back(bracket(one->before, median(block), *after, gpu_.cost_.slack_s));
        one->before = *after;
        faster = decide(one->brackets);
        verdict_.faster[one->kind] = faster.value_or(false);
        verdict_.evidence["brackets"][one->kind] = one->brackets;
      }
      one = after && !faster ? one + 1 : open.erase(one);
    }
  }
  return true;
}

bool Evaluation::all_is_known() const {
  return gpu_.cost_.known && (!python_ || gpu_.cost_.candidate_s > 0) && task_->idle_open_s > 0 && missing().empty();
}

// What is measured once for a judge, and once for a task.
Status Evaluation::prepare() {
  Baselines loaded = gpu_.arrivals_.take(this);  // who needs the room could end them
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
    const auto blanks = [this] { return blank_at_hand(); };
    const auto measure = [&] {
      return measure_task_cost(*device_, gpu_.place_.root, blanks, session, *batch_, tolerance_);
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

bool Evaluation::time() {
  gpu_.tasks_.retire_residents(task_, device_->bytes() / kShareKept);
  const Session& session = *task_->session;
  if (!all_is_known()) {
    subject_.reset();
    if (Status status = prepare(); !status) {
      return home_ && !home_->alive() ? ended_home(Stage::time) : void_for(Stage::time, status.failure());
    }
  }
  measuring_ = {};
  place_ = {};
  if (!subject_) {
    subject_ = fresh(Stage::time);
    if (!subject_ || !warm(*subject_, Stage::time)) {
      return false;
    }
  }
  verdict_.slack_s = gpu_.cost_.slack_s;
  verdict_.evidence["clock"] = gpu_.cost_.evidence;
  verdict_.evidence["clock"]["closing_s"] = task_->cost.closing_s;
  verdict_.evidence["clock"]["flush_s"] = task_->cost.flush_s;
  verdict_.evidence["before"] = device_->state();
  if (!candidate_block(*subject_, samples_)) {
    return false;
  }
  subject_.reset();
  verdict_.evidence["after"] = device_->state();
  verdict_.times["candidate_s"] = median(samples_);
  verdict_.evidence["samples"] = samples_;
  for (const std::string& kind : kinds()) {
    compare_with(kind);
  }
  if (verdict_.faster.empty() && purpose_ == Purpose::verdict) {
    verdict_.unresolved(SpeedReason::no_baseline);
  }
  verdict_.measured();
  settle(std::vector(close_));
  std::copy_if(close_.begin(), close_.end(), std::back_inserter(absent_),
               [this](const std::string& kind) { return resident(kind) == nullptr; });
  if (gpu_.cost_.bandwidth > 0) {
    // Everything once through the memory; no verdict rests on it, since a task need not read all of its inputs.
    const Layouts& layouts = session.layouts();
    const double bytes =
        static_cast<double>(layouts.inputs.region_bytes + layouts.state.region_bytes + layouts.outputs.region_bytes);
    verdict_.evidence["floor_s"] = bytes / gpu_.cost_.bandwidth;
    verdict_.evidence["bandwidth"] = gpu_.cost_.bandwidth;
  }
  return true;
}

}  // namespace khost::judge::gpu
