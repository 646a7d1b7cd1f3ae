// Processes of a task's baselines: how they come up, and how long their calls take.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "sandbox/judge/cuda/calibration.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/statistics.h"

namespace khost::judge::gpu {
namespace {

std::string ending(const Turn& turn) {
  using End = Window::End;
  const End end = turn.window.end;
  return std::string(turn.lost             ? "the GPU failed"
                     : end == End::timeout ? "it takes too long"
                     : end == End::gone    ? "its process ended"
                     : end == End::stuck   ? "it cannot be stopped"
                                           : "status " + std::to_string(turn.window.status)) +
         " " + turn.window.message;
}

}  // namespace

bool passing(const Failure& why) {
  return is_ours(why) || why.code == "limit" || why.code == "device";
}

// Against eager alone, a verdict says nothing about the compiler and needs none of its seconds.
std::vector<std::string> Evaluation::kinds() const {
  return *opponents_of(request_);  // the service has refused other words
}

std::vector<std::string> Evaluation::missing() const {
  const Session& session = *task_->session;
  std::vector<std::string> result;
  for (const std::string& kind : kinds()) {
    if (session.baselines.count(kind) + session.unavailable.count(kind) == 0) {
      result.push_back(kind);
    }
  }
  return result;
}

// A process of a baseline that comes up.
Result<std::unique_ptr<GpuBaseline>> Evaluation::begin_baseline(const std::string& kind, Beside beside) {
  Result<Zygote*> python = gpu_.zygote();
  return python ? GpuBaseline::begin(*device_, **python, *task_->session, *batch_, kind, beside)
                : Result<std::unique_ptr<GpuBaseline>>(python.failure());
}

Result<std::unique_ptr<GpuBaseline>> Evaluation::start_baseline(const std::string& kind) {
  Result<std::unique_ptr<GpuBaseline>> begun = begin_baseline(kind);
  if (!begun) {
    return begun;
  }
  const Status loaded = (*begun)->loaded(kCompileTimeout_s);
  const Status ready = loaded ? (*begun)->ready(kCompileTimeout_s) : loaded;
  return ready ? std::move(begun) : Result<std::unique_ptr<GpuBaseline>>(ready.failure());
}

// The median of a block of calls. `fresh`: of a process that made none yet; it gets more of them, and a longer warm-up.
Result<double> Evaluation::timed_block(const std::string& kind, GpuBaseline& subject, bool fresh) {
  task_->residents_used = std::chrono::steady_clock::now();
  std::vector<double> seconds;
  const std::size_t sets = batch_->drawn().size();
  const std::size_t warm_ups = fresh ? kWarmUps : kResidentWarmUps;
  const std::size_t calls = fresh ? std::max(sets, kWarmUps + kVisibleCalls) : kResidentWarmUps + kBracketCalls;
  const std::vector<std::size_t> order = around(batch_->drawn(), 0, calls);
  for (std::size_t i = 0; i < calls; i++) {
    const bool warming = i < warm_ups;
    Turn turn;
    if (warming && fresh) {
      turn.window = subject.direct(*batch_, order[i], kBaselineCallTimeout_s);
    } else {
      turn = subject.queued(*batch_, order[i], kBaselineCallTimeout_s);
    }
    if (turn.window.end != Window::End::done || turn.window.status != 0 || turn.lost) {
      const std::string why = turn.open_s == 0 && turn.window.end == Window::End::timeout
                                  ? " synchronises with the device and cannot be queued"
                                  : " did not answer: " + ending(turn);
      const char* const code = turn.lost ? "device" : turn.window.end == Window::End::gone ? "gone" : "timeout";
      return Failure{"the " + kind + " baseline" + why, code};
    }
    if (!warming) {
      seconds.push_back(kind == "empty" ? turn.window.seconds
                                        : without(turn.window.seconds - gpu_.cost_.python_s, task_->cost.flush_s));
    }
  }
  return median(seconds);
}

GpuBaseline* Evaluation::resident(const std::string& kind) {
  std::unique_ptr<GpuBaseline>& kept = task_->residents[kind];
  if (kept && !kept->alive()) {
    kept.reset();
  }
  return kept.get();
}

// Of the process that is kept for it, or of a new one.
Result<double> Evaluation::resident_block(const std::string& kind) {
  const bool fresh = resident(kind) == nullptr;
  std::unique_ptr<GpuBaseline>& kept = task_->residents[kind];
  if (fresh) {
    Result<std::unique_ptr<GpuBaseline>> started = start_baseline(kind);
    if (!started && started.failure().code == "limit" && !(ahead_.empty() && blanks_.empty())) {
      give_up_ahead();  // the candidate's own, before others'
      started = start_baseline(kind);
    }
    if (!started && started.failure().code == "limit") {
      gpu_.give_up_others(task_);
      started = start_baseline(kind);
    }
    if (!started) {
      return started.failure();
    }
    kept = std::move(*started);
  }
  Result<double> block = timed_block(kind, *kept, fresh);
  if (block) {
    task_->missed.erase(kind);
  } else {
    kept.reset();
  }
  return block;
}

// Whether a verdict does without a baseline that cannot be had now. It waits for better times, but not for ever.
bool Evaluation::goes_without(const std::string& kind, const Failure& why) {
  verdict_.evidence[kind + "_missed"] = why.message;
  return !passing(why) || ++task_->missed[kind] >= kMostMisses;
}

// Seconds that nobody should have to wait for: contexts, models and what the compiler builds. Where it fails,
// time() does it again, alone, and says what is wrong. Nothing where the task is large.
bool Evaluation::bring_up_baselines() {
  if (!fits_often()) {
    return true;
  }
  measuring_ = std::unique_lock(task_->measuring);
  const std::vector<std::string> wanted = missing();
  if (wanted.empty()) {  // by now others of the task have measured them
    measuring_ = {};
    return true;
  }
  (void)come_up([&] {
    return preparing("baselines load", [&] { return load_baselines(wanted, kBaselineProcesses, Beside::build); });
  });
  return true;
}

// What was chosen lies in the compiler's cache. Where it fails, brackets start them in their turn.
bool Evaluation::bring_up_residents() {
  if (!fits_often()) {
    absent_.clear();
    return true;
  }
  if (!come_up([&] { return load_baselines(absent_, 1, Beside::load); })) {
    place_ = {};
    absent_.clear();
  }
  return true;
}

// They are measured by who has the right to the device, or ended by who needs the room.
Status Evaluation::come_up(const std::function<Result<Baselines>()>& load) {
  place_ = std::unique_lock(gpu_.coming_up_);
  return gpu_.untimed([&](Device& device) -> Status {
    Result<Baselines> up = &device == device_ ? load() : lost();
    if (!up) {
      return up.failure();
    }
    gpu_.arrivals_.put(this, std::move(*up));
    return ok();
  });
}

// Processes that come up side by side, so many of each kind. `compiler`: what the first one that compiles does.
// A kind of which one fails is left out.
Result<Baselines> Evaluation::load_baselines(const std::vector<std::string>& kinds, std::size_t processes,
                                             Beside compiler) {
  Baselines up;
  for (const std::string& kind : kinds) {
    while (up[kind].size() < processes) {
      Result<std::unique_ptr<GpuBaseline>> one =
          begin_baseline(kind, kind == "compile" && up[kind].empty() ? compiler : Beside::wait);
      if (!one) {
        return one.failure();
      }
      up[kind].push_back(std::move(*one));
    }
  }
  for (auto& [kind, begun] : up) {
    for (const auto& one : begun) {
      if (const Status loaded = one->loaded(kCompileTimeout_s); !loaded) {
        verdict_.evidence["baselines_alone"][kind] = loaded.failure().message;
        begun.clear();
        break;
      }
    }
  }
  return up;
}

// By three processes, those that are loaded or else one after the other. One alone uses the device at a time, since a
// compiler, or a library, chooses by measuring. The first one that compiles is not timed: those that load its cache
// are.
Status Evaluation::measure_baseline(const std::string& kind, Baselines::mapped_type loaded) {
  const bool stay = !loaded.empty();
  Baselines::mapped_type over;
  std::vector<double> medians;
  for (std::size_t i = 0; i < kBaselineProcesses; i++) {
    Result<std::unique_ptr<GpuBaseline>> one =
        stay ? Result<std::unique_ptr<GpuBaseline>>(std::move(loaded[i])) : start_baseline(kind);
    const bool compiles = kind == "compile" && i == 0;  // it did, when it was loaded beside others
    const Status ready = !one ? Status(one.failure()) : stay && !compiles ? (*one)->ready(kCompileTimeout_s) : ok();
    if (!ready) {
      return ready;
    }
    if (!compiles) {
      Result<double> block = timed_block(kind, **one, true);
      if (!block) {
        return block.failure();
      }
      medians.push_back(*block);
    }
    if (i + 1 == kBaselineProcesses) {
      task_->residents[kind] = std::move(*one);
    } else if (stay) {
      over.push_back(std::move(*one));  // its end would disturb the next one
    }
  }
  for (const auto& one : over) {
    one->end();
  }
  task_->session->baselines[kind] = baseline_of(medians);
  task_->missed.erase(kind);
  return ok();
}

// Those that nobody has measured. A failure when one cannot be had now: a verdict without it would tell a candidate
// that it is faster than nothing.
Status Evaluation::measure_baselines(Baselines loaded) {
  for (const std::string& kind : missing()) {
    Status measured = preparing(kind, [&] { return measure_baseline(kind, std::move(loaded[kind])); });
    if (!measured && passing(measured.failure())) {
      if (measured.failure().code == "limit") {
        loaded.clear();
        gpu_.give_up_others(task_);
      }
      measured = preparing(kind, [&] { return measure_baseline(kind, {}); });
    }
    if (!measured && !goes_without(kind, measured.failure())) {
      return measured;
    }
    if (!measured) {
      task_->session->unavailable[kind] = measured.failure().message;
    }
  }
  return ok();
}

}  // namespace khost::judge::gpu
