// The processes of a task's baselines: how they are started, and how long their calls take.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "sandbox/judge/cuda/calibration.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/statistics.h"

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

std::vector<std::string> GpuEvaluation::missing() const {
  const Session& session = *task_->session;
  std::vector<std::string> result;
  for (const std::string& kind : opponents()) {
    if (session.baselines.count(kind) + session.unavailable.count(kind) == 0) {
      result.push_back(kind);
    }
  }
  return result;
}

// Starts a baseline process, which loads in the background.
Result<std::unique_ptr<GpuBaseline>> GpuEvaluation::begin_baseline(const std::string& kind, Beside beside) {
  Result<Zygote*> python = gpu_.zygote();
  return python ? GpuBaseline::begin(*device_, **python, *task_->session, *batch_, kind, beside)
                : Result<std::unique_ptr<GpuBaseline>>(python.failure());
}

Result<std::unique_ptr<GpuBaseline>> GpuEvaluation::start_baseline(const std::string& kind) {
  Result<std::unique_ptr<GpuBaseline>> begun = begin_baseline(kind);
  if (!begun) {
    return begun;
  }
  const Status loaded = (*begun)->loaded(kCompileTimeout_s);
  const Status ready = loaded ? (*begun)->ready(kCompileTimeout_s) : loaded;
  return ready ? std::move(begun) : Result<std::unique_ptr<GpuBaseline>>(ready.failure());
}

// The median of a block of calls. `fresh`: the process has made no call yet; it makes more of them, and a longer
// warm-up.
Result<double> GpuEvaluation::timed_block(const std::string& kind, GpuBaseline& subject, bool fresh) {
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

GpuBaseline* GpuEvaluation::resident(const std::string& kind) {
  std::unique_ptr<GpuBaseline>& kept = task_->residents[kind];
  if (kept && !kept->alive()) {
    kept.reset();
  }
  return kept.get();
}

// Times a block in the resident process of this kind, or in a new one.
Result<double> GpuEvaluation::resident_block(const std::string& kind) {
  const bool fresh = resident(kind) == nullptr;
  std::unique_ptr<GpuBaseline>& kept = task_->residents[kind];
  if (fresh) {
    Result<std::unique_ptr<GpuBaseline>> started = start_baseline(kind);
    if (!started && started.failure().code == "limit" && !(ahead_.empty() && idle_subjects_.empty())) {
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

// Whether a verdict is given without a baseline that cannot be started now. A few later verdicts try again.
bool GpuEvaluation::skips_baseline(const std::string& kind, const Failure& why) {
  verdict_.evidence[kind + "_missed"] = why.message;
  return !passing(why) || ++task_->missed[kind] >= kMostMisses;
}

// Contexts, models and the compiler's output take seconds for which no other evaluation should wait. When this fails,
// time() tries again with the device locked and reports the error. A large task is left to time().
bool GpuEvaluation::load_missing_baselines() {
  if (!fits_often()) {
    return true;
  }
  measuring_ = std::unique_lock(task_->measuring);
  const std::vector<std::string> wanted = missing();
  if (wanted.empty()) {  // another evaluation of the task has measured them meanwhile
    measuring_ = {};
    return true;
  }
  (void)load_pending([&] {
    return preparing("baselines load", [&] { return load_baselines(wanted, kBaselineProcesses, Beside::build); });
  });
  return true;
}

// The compiler's choices are in its cache by now. When this fails, resident_block() starts the processes itself.
bool GpuEvaluation::load_absent_baselines() {
  if (!fits_often()) {
    absent_.clear();
    return true;
  }
  if (!load_pending([&] { return load_baselines(absent_, 1, Beside::load); })) {
    loading_slot_ = {};
    absent_.clear();
  }
  return true;
}

// Loads baseline processes in the background. They are timed later under the device lock, unless another evaluation
// ends them first to free memory.
Status GpuEvaluation::load_pending(const std::function<Result<Baselines>()>& load) {
  loading_slot_ = gpu_.schedule_.loading();
  return gpu_.untimed([&](Device& device) -> Status {
    Result<Baselines> up = &device == device_ ? load() : lost();
    if (!up) {
      return up.failure();
    }
    gpu_.pending_baselines_.put(this, std::move(*up));
    return ok();
  });
}

// Loads `processes` of each kind in parallel. `compiler`: what the first process that compiles does. A kind is left out
// when one of its processes fails.
Result<Baselines> GpuEvaluation::load_baselines(const std::vector<std::string>& kinds, std::size_t processes,
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

// Times three processes, loaded ones or new ones in turn. Only one uses the device at a time, since a compiler or a
// library may choose by measuring. The first process that compiles is not timed; those that load its cache are.
Status GpuEvaluation::measure_baseline(const std::string& kind, Baselines::mapped_type loaded) {
  const bool stay = !loaded.empty();
  Baselines::mapped_type over;
  std::vector<double> medians;
  for (std::size_t i = 0; i < kBaselineProcesses; i++) {
    Result<std::unique_ptr<GpuBaseline>> one =
        stay ? Result<std::unique_ptr<GpuBaseline>>(std::move(loaded[i])) : start_baseline(kind);
    const bool compiles = kind == "compile" && i == 0;  // a loaded one has compiled already
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
      over.push_back(std::move(*one));  // its end would disturb the next timing
    }
  }
  for (const auto& one : over) {
    one->end();
  }
  task_->session->baselines[kind] = baseline_of(medians);
  task_->missed.erase(kind);
  return ok();
}

// Times the missing baselines. Fails when one cannot be started now, since a verdict without any baseline would say
// that the candidate is faster than nothing.
Status GpuEvaluation::measure_baselines(Baselines loaded) {
  for (const std::string& kind : missing()) {
    Status measured = preparing(kind, [&] { return measure_baseline(kind, std::move(loaded[kind])); });
    if (!measured && passing(measured.failure())) {
      if (measured.failure().code == "limit") {
        loaded.clear();
        gpu_.give_up_others(task_);
      }
      measured = preparing(kind, [&] { return measure_baseline(kind, {}); });
    }
    if (!measured && !skips_baseline(kind, measured.failure())) {
      return measured;
    }
    if (!measured) {
      task_->session->unavailable[kind] = measured.failure().message;
    }
  }
  return ok();
}

}  // namespace khost::judge::gpu
