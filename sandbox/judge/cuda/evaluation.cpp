#include "sandbox/judge/cuda/evaluation.h"

#include <chrono>

#include "host/base/lease.h"
#include "sandbox/judge/planning.h"
#include "sandbox/judge/service.h"

namespace khost::judge::gpu {
namespace {

using Steady = std::chrono::steady_clock;

double since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

}  // namespace

Result<Json> Evaluation::run() {
  if (!request_.contains("files") || !request_["files"].is_object()) {
    return Failure{"evaluate needs files", "bad_input"};
  }
  files_ = candidate_files(request_["files"]);
  struct Step {
    const char* name;
    bool (Evaluation::*run)();
    bool on_device;
  };
  const bool measured = wants_times(request_, purpose_);
  Result<Lease> lease = Lease::open(gpu_.lease_path_);
  if (!lease) {
    verdict_.fail("void", "task", "lease", lease.failure().message);
    return answer();
  }
  bool passed = true;
  for (const Step& step :
       {Step{"task", &Evaluation::open_task, true}, Step{"build", &Evaluation::build_kernels, false},
        Step{"plan", &Evaluation::make_plan, false}, Step{"verify", &Evaluation::verify, true},
        Step{"time", &Evaluation::time, true}, Step{"profile", &Evaluation::profile, true}}) {
    if (step.run == &Evaluation::time && !measured) {
      break;
    }
    if (step.run == &Evaluation::profile && (purpose_ != Purpose::profile || !request_.value("kernels", true))) {
      break;
    }
    const bool alone = step.run == &Evaluation::time || step.run == &Evaluation::profile;
    std::unique_lock right(gpu_.mutex_, std::defer_lock);
    if (step.on_device) {
      right.lock();
    }
    const auto begin = Steady::now();
    verdict_.stage = step.name;
    if (step.on_device) {
      // Verification leaves the device to others' shared work; timing needs it alone.
      const Lease::Guard guard = lease->acquire(alone ? Lease::Mode::exclusive : Lease::Mode::shared);
      const auto held = Steady::now();
      const Status opened = gpu_.open();
      passed = opened ? (this->*step.run)() : void_for(step.name, opened.failure());
      if (!passed || step.run == &Evaluation::time || (!measured && step.run == &Evaluation::verify)) {
        subject_.reset();
      }
      if (step.run == &Evaluation::time) {
        verdict_.evidence["exclusive_s"] = since(held);
      }
    } else {
      passed = (this->*step.run)();
    }
    verdict_.wall_s[step.name] = since(begin);
    if (!passed) {
      return answer();
    }
  }
  verdict_.status = "ok";
  return answer();
}

bool Evaluation::void_for(const char* stage, const Failure& failure) {
  verdict_.fail(failure.code == "bad_task" ? "bad_task" : "void", stage, failure.code, failure.message);
  return false;
}

bool Evaluation::open_task() {
  Result<std::shared_ptr<Task>> task = gpu_.task(request_["task"]["source"].get<std::string>());
  if (!task) {
    return void_for("task", task.failure());
  }
  task_ = *task;
  verdict_.evidence["task_hash"] = task_->session->hash();
  verdict_.evidence["inputs"] = task_->session->planted() ? "planted" : "nominal";
  verdict_.evidence["device"] = gpu_.device_->describe();
  return true;
}

bool Evaluation::build_kernels() {
  if (!choose_subject()) {
    return false;
  }
  if (python_) {
    return build_extensions();
  }
  sandbox::BuildRequest request;
  request.files = files_;
  request.target = "cuda";
  request.arch = gpu_.device_->architecture();
  Result<sandbox::Built> built = sandbox::build(request);
  if (!built) {
    fail_build(verdict_, built.failure());
    return false;
  }
  built_ = std::move(*built);
  verdict_.evidence["artefact_hash"] = built_.hash;
  return true;
}

bool Evaluation::make_plan() {
  if (python_) {
    return take_home();
  }
  const auto recorder = [this] { return gpu_.service_.recorders(); };
  Result<sandbox::Plan> plan = plan_of({files_, built_, *task_->session}, recorder);
  if (!plan) {
    fail_plan(verdict_, plan.failure());
    return false;
  }
  plan_ = std::move(*plan);
  return true;
}

}  // namespace khost::judge::gpu
