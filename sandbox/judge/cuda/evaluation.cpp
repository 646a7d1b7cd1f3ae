#include "sandbox/judge/cuda/evaluation.h"

#include <chrono>
#include <shared_mutex>

#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/service/service.h"
#include "sandbox/judge/task/planning.h"

namespace khost::judge::gpu {
namespace {

using Steady = std::chrono::steady_clock;

double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

}  // namespace

Evaluation::~Evaluation() {
  gpu_.ahead_ -= counted_;
  if (batch_) {
    gpu_.defer_free(std::move(batch_));
  }
  (void)gpu_.pending_baselines_.take(
      this);  // an exception can leave them, and the next evaluation may have this address
}

Result<Json> Evaluation::run() {
  if (!request_.contains("files") || !request_["files"].is_object()) {
    return Failure{"the request needs files", "bad_input"};
  }
  files_ = candidate_files(request_["files"]);
  verdict_.rules = *rules_of(request_);  // the service has refused other words
  Result<Lease> lease = Lease::open(gpu_.lease_path_);
  if (!lease) {
    verdict_.fail(Outcome::void_, Stage::task, Reason::lease, lease.failure().message);
    return answer();
  }
  if (!choose_subject()) {
    return answer();
  }
  gpu_.prefetch(python_, files_.count("model_new.py") > 0);
  const auto always = [] { return true; };
  const auto unopened = [this] { return task_ == nullptr; };
  const auto measured = [this] { return times_wanted(); };
  const auto unknown = [&] { return measured() && !known_; };
  const auto absent = [this] { return !absent_.empty(); };
  const auto unsettled = [this] { return purpose_ == Purpose::verdict && decision_ && !decision_->open().empty(); };
  const auto profiled = [this] { return purpose_ == Purpose::profile && request_.value("kernels", true); };
  DeviceGuard guard(gpu_);
  for (const Step& step : {Step{"task", Stage::task, &Evaluation::open_device, Need::nothing, always},
                           Step{"task", Stage::task, &Evaluation::open_task, Need::nothing, always},
                           Step{"task", Stage::task, &Evaluation::open_task_alone, Need::device_alone, unopened},
                           Step{"build", Stage::build, &Evaluation::build_kernels, Need::nothing, always},
                           Step{"plan", Stage::plan, &Evaluation::make_plan, Need::nothing, always},
                           Step{"sets", Stage::verify, &Evaluation::take_sets, Need::nothing, always},
                           Step{"start", Stage::verify, &Evaluation::take_idle_subject, Need::nothing, always},
                           Step{"start", Stage::verify, &Evaluation::start_first, Need::lease, always},
                           Step{"verify", Stage::verify, &Evaluation::verify, Need::device, always},
                           Step{"baselines", Stage::time, &Evaluation::load_missing_baselines, Need::nothing, unknown},
                           Step{"time", Stage::time, &Evaluation::time, Need::device_alone, measured},
                           Step{"baselines", Stage::time, &Evaluation::load_absent_baselines, Need::nothing, absent},
                           Step{"beside", Stage::time, &Evaluation::beside, Need::device_alone, absent},
                           Step{"start", Stage::time, &Evaluation::take_idle_subjects, Need::nothing, unsettled},
                           Step{"start", Stage::time, &Evaluation::start_others, Need::lease, unsettled},
                           Step{"brackets", Stage::time, &Evaluation::brackets, Need::device_alone, unsettled},
                           Step{"profile", Stage::profile, &Evaluation::profile, Need::device_alone, profiled}}) {
    if (!step.wanted()) {
      continue;
    }
    verdict_.enter(step.stage);
    if (!run_step(step, guard, *lease)) {
      return answer();
    }
  }
  if (decision_ && purpose_ == Purpose::verdict) {
    decision_->write(verdict_);
  }
  verdict_.pass();
  return answer();
}

// Verification tolerates starts in advance on the device; timing tolerates nothing. The device lock is kept from
// verification to timing, so that no loaded candidate is alive while another one is timed.
bool Evaluation::run_step(const Step& step, DeviceGuard& guard, Lease& lease) {
  const auto asked = Steady::now();
  auto held = asked;
  const bool on_device = step.need == Need::device || step.need == Need::device_alone;
  if (on_device) {
    guard.take();
  } else {
    guard.give_back();
    if (step.need == Need::lease && !starts_slowly()) {
      guard.claim.take();  // it is timed next: no start may begin that it would have to wait for
    } else {
      guard.claim.drop();
    }
  }
  if (step.need == Need::lease && starts_slowly()) {
    gpu_.priority_.wait_until_unclaimed(kMostWaitForTiming_s);
  }
  bool passed = false;
  if (step.need == Need::nothing) {
    passed = (this->*step.run)();
  } else {
    const Lease::Guard leased =
        lease.acquire(step.need == Need::device_alone ? Lease::Mode::exclusive : Lease::Mode::shared);
    held = Steady::now();
    std::shared_lock starting(gpu_.starting_, std::defer_lock);
    if (!on_device) {
      starting.lock();
    }
    const Status opened = on_device ? gpu_.open() : device_->attach();
    if (!opened) {
      passed = void_for(step.stage, opened.failure());
    } else if (on_device && device_ && gpu_.device_.get() != device_) {
      passed = void_for(step.stage, lost());
    } else {
      passed = (this->*step.run)();
    }
    const bool over = step.need == Need::device_alone && step.run != &Evaluation::profile;
    if (!passed || over) {
      (void)gpu_.pending_baselines_.take(this);  // the processes that were not used
    }
    if (!passed || over || (step.run == &Evaluation::verify && (!known_ || !times_wanted()))) {
      subject_.reset();  // no candidate lives while anything else is timed
    }
    if (!passed || step.run == &Evaluation::brackets) {
      give_up_ahead();  // later, the end of a process would disturb another evaluation's timing
    }
    if (over) {
      verdict_.evidence["exclusive_s"] = exclusive_s_ += since(held);
    }
  }
  verdict_.wall_s["wait"] += std::chrono::duration<double>(held - asked).count();
  verdict_.wall_s[step.name] += since(held);
  return passed;
}

bool Evaluation::times_wanted() {
  return wants_times(request_, purpose_, *task_->session->calibration(), verdict_);
}

bool Evaluation::void_for(Stage stage, const Failure& failure) {
  verdict_.fail(stage, blame_host(failure));
  return false;
}

bool Evaluation::killed_its_zygote(Stage stage) {
  verdict_.fail(Outcome::crash, stage, Reason::exit, "the candidate ended the process that its own are forked from");
  return false;
}

bool Evaluation::open_device() {
  Result<Device*> device = gpu_.device();
  if (!device) {
    return void_for(Stage::task, device.failure());
  }
  device_ = *device;
  verdict_.evidence["device"] = device_->describe();
  return true;
}

// A failure here may be due to a candidate that is being verified, or to baselines that are loading: the task is opened
// again while no other evaluation uses the device, unless the failure is the task's own.
bool Evaluation::open_task() {
  begin_build();
  Result<std::shared_ptr<Task>> task = gpu_.task(request_["task"]["source"].get<std::string>());
  const bool its_own =
      !task && blames_task(task.failure()) && task.failure().code != "timeout" && task.failure().code != "limit";
  return task || its_own ? take_task(std::move(task)) : true;
}

bool Evaluation::open_task_alone() {
  return take_task(gpu_.task_alone(request_["task"]["source"].get<std::string>()));
}

bool Evaluation::take_task(Result<std::shared_ptr<Task>> task) {
  const bool crowded = !task && task.failure().code == "limit" && gpu_.ahead_ > 0;  // by others' processes
  if (!task && blames_task(task.failure()) && !crowded) {
    verdict_.fail(Stage::task, blame_task(task.failure()));
    return false;
  }
  if (!task) {
    return void_for(Stage::task, task.failure());
  }
  task_ = *task;
  verdict_.evidence["task_hash"] = task_->session->hash();
  return can_judge(request_, *task_->session->calibration(), verdict_);
}

// What a candidate in Python builds is known when its module has run.
void Evaluation::begin_build() {
  if (python_) {
    return;
  }
  sandbox::BuildRequest request;
  request.files = files_;
  request.target = "cuda";
  request.arch = device_->architecture();
  building_ = std::async(std::launch::async, [request = std::move(request)] { return sandbox::build(request); });
}

bool Evaluation::build_kernels() {
  if (python_) {
    return build_extensions();
  }
  Result<sandbox::Built> built = building_.get();
  if (!built) {
    verdict_.fail(Stage::build, blame_build(built.failure()));
    return false;
  }
  built_ = std::move(*built);
  verdict_.evidence["artefact_hash"] = built_.hash;
  return true;
}

bool Evaluation::make_plan() {
  if (python_) {
    return take_python();
  }
  const auto recorder = [this] { return gpu_.service_.device_recorders(); };
  static const std::string kOwn = "own";  // a plan with torch operators is for the CPU; here a candidate in Python runs
  Result<sandbox::Plan> plan = plan_of({files_, built_, *task_->session, kOwn}, recorder);
  if (!plan) {
    verdict_.fail(Stage::plan, blame_plan(plan.failure()));
    return false;
  }
  plan_ = std::move(*plan);
  return true;
}

}  // namespace khost::judge::gpu
