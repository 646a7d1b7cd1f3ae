#include "sandbox/judge/cuda/evaluation.h"

#include <chrono>
#include <string_view>

#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/service/service.h"

namespace khost::judge::gpu {
namespace {

using Steady = std::chrono::steady_clock;

double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

// Steps that run_step() treats apart.
constexpr const char* kVerify = "verify";
constexpr const char* kBrackets = "brackets";
constexpr const char* kProfile = "profile";
constexpr std::size_t kShareFree = 16;  // with less free GPU memory than this part of it, processes end one at a time

}  // namespace

GpuEvaluation::~GpuEvaluation() {
  gpu_.schedule_.release(reserved_);
  if (batch_) {
    gpu_.defer_free(std::move(batch_));
  }
  (void)gpu_.pending_baselines_.take(
      this);  // an exception can leave them, and the next evaluation may have this address
}

std::vector<Evaluation::Step> GpuEvaluation::steps() {
  const auto body = [this](bool (GpuEvaluation::*step)()) { return [this, step] { return (this->*step)(); }; };
  const std::function<bool()> always;
  const auto unopened = [this] { return task_ == nullptr; };
  const auto measured = [this] { return times_wanted(); };
  const auto unknown = [this] { return times_wanted() && !known_; };
  const auto absent = [this] { return !absent_.empty(); };
  const auto unsettled = [this] { return purpose_ == Purpose::verdict && decision_ && !decision_->open().empty(); };
  const auto profiled = [this] { return purpose_ == Purpose::profile && request_.value("kernels", true); };
  return {{"task", Stage::task, body(&GpuEvaluation::begin), always, kNothing},
          {"task", Stage::task, body(&GpuEvaluation::open_device), always, kNothing},
          {"task", Stage::task, body(&GpuEvaluation::open_task), always, kNothing},
          {"task", Stage::task, body(&GpuEvaluation::open_task_alone), unopened, kDeviceAlone},
          {"build", Stage::build, body(&GpuEvaluation::build_kernels), always, kNothing},
          {"plan", Stage::plan, body(&GpuEvaluation::make_plan), always, kNothing},
          {"sets", Stage::verify, body(&GpuEvaluation::take_sets), always, kNothing},
          {"start", Stage::verify, body(&GpuEvaluation::take_idle_subject), always, kNothing},
          {"start", Stage::verify, body(&GpuEvaluation::start_first), always, kStart},
          {kVerify, Stage::verify, body(&GpuEvaluation::verify), always, kDevice},
          {"baselines", Stage::time, body(&GpuEvaluation::load_missing_baselines), unknown, kNothing},
          {"time", Stage::time, body(&GpuEvaluation::time), measured, kDeviceAlone},
          {"baselines", Stage::time, body(&GpuEvaluation::load_absent_baselines), absent, kNothing},
          {"beside", Stage::time, body(&GpuEvaluation::beside), absent, kDeviceAlone},
          {"start", Stage::time, body(&GpuEvaluation::take_idle_subjects), unsettled, kNothing},
          {"start", Stage::time, body(&GpuEvaluation::start_others), unsettled, kStart},
          {kBrackets, Stage::time, body(&GpuEvaluation::take_brackets), unsettled, kDeviceAlone},
          {kProfile, Stage::profile, body(&GpuEvaluation::profile), profiled, kDeviceAlone}};
}

bool GpuEvaluation::begin() {
  if (const Status opened = turn_.open(); !opened) {
    verdict_.fail(Outcome::void_, Stage::task, Reason::lease, opened.failure().message);
    return false;
  }
  if (!choose_subject()) {
    return false;
  }
  gpu_.prefetch(python_, files_.count("model_new.py") > 0, queues_);
  return true;
}

void GpuEvaluation::ended(bool passed) {
  if (passed && decision_ && purpose_ == Purpose::verdict) {
    decision_->write(verdict_);
  }
  turn_.leave();
}

// Verification tolerates starts in advance on the device; timing tolerates nothing. The device lock is kept from
// verification to timing, so that no loaded candidate is alive while another one is timed.
bool GpuEvaluation::run_step(const Step& step) {
  const std::string_view name = step.name;
  const auto asked = Steady::now();
  auto held = asked;
  bool passed = false;
  if (step.needs == kNothing) {
    turn_.leave();
    passed = step.body();
  } else {
    using Schedule = DeviceSchedule;
    const bool on_device = step.needs != kStart;
    Schedule::Held used = on_device
                              ? turn_.use(step.needs == kDeviceAlone ? Schedule::Use::time : Schedule::Use::verify)
                              : turn_.start(starts_slowly() ? Schedule::Start::patient : Schedule::Start::next);
    held = Steady::now();
    const Status opened = on_device ? gpu_.open() : device_->attach();
    if (!opened) {
      passed = void_for(step.stage, opened.failure());
    } else if (on_device && device_ && gpu_.device_.get() != device_) {
      passed = void_for(step.stage, lost());
    } else {
      passed = step.body();
    }
    const bool over = step.needs == kDeviceAlone && name != kProfile;
    if (!passed || over) {
      (void)gpu_.pending_baselines_.take(this);  // the processes that were not used
    }
    if (!passed || over || (name == kVerify && (!known_ || !times_wanted()))) {
      end_subject(step, used);  // no candidate lives while anything else is timed
    }
    if (!passed || name == kBrackets) {
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

// The driver takes 60 to 90 ms to end a process with a context (tests/manual/probes/README.md), several times what most
// verifications take. So the next evaluation verifies meanwhile, unless it may need the memory that this process holds.
void GpuEvaluation::end_subject(const Step& step, DeviceSchedule::Held& used) {
  if (step.needs == kDevice && subject_ && device_ && device_->free_bytes() >= device_->bytes() / kShareFree) {
    turn_.leave_ending(used);
  }
  subject_.reset();
}

bool GpuEvaluation::killed_its_zygote(Stage stage) {
  verdict_.fail(Outcome::crash, stage, Reason::exit, "the candidate ended the process that its own are forked from");
  return false;
}

bool GpuEvaluation::open_device() {
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
bool GpuEvaluation::open_task() {
  begin_build();
  Result<std::shared_ptr<Task>> task = gpu_.task(request_["task"]["source"].get<std::string>(), audience());
  const bool its_own =
      !task && blames_task(task.failure()) && task.failure().code != "timeout" && task.failure().code != "limit";
  return task || its_own ? take_task(std::move(task)) : true;
}

bool GpuEvaluation::open_task_alone() {
  return take_task(gpu_.task_alone(request_["task"]["source"].get<std::string>(), audience()));
}

bool GpuEvaluation::take_task(Result<std::shared_ptr<Task>> task) {
  const bool crowded =
      !task && task.failure().code == "limit" && gpu_.schedule_.reserved() > 0;  // by others' processes
  if (!task && blames_task(task.failure()) && !crowded) {
    verdict_.fail(Stage::task, blame_task(task.failure()));
    return false;
  }
  if (!task) {
    return void_for(Stage::task, task.failure());
  }
  task_ = *task;
  return opened(task_->session);
}

// What a candidate in Python builds is known when its module has run.
void GpuEvaluation::begin_build() {
  if (python_) {
    return;
  }
  sandbox::BuildRequest request;
  request.files = files_;
  request.target = "cuda";
  request.arch = device_->architecture();
  building_ = std::async(std::launch::async, [request = std::move(request)] { return sandbox::build(request); });
}

bool GpuEvaluation::build_kernels() {
  if (python_) {
    return build_extensions();
  }
  return built(building_.get());
}

bool GpuEvaluation::make_plan() {
  if (python_) {
    return take_python();
  }
  // A plan with torch operators is for the CPU; here a candidate in Python runs.
  return planned("own", [this] { return gpu_.service_.device_recorders(); });
}

ProfileFacts GpuEvaluation::profile_facts() const {
  const Layouts& layouts = task_->session->layouts();
  const auto samples = verdict_.evidence.at("samples").get<std::vector<double>>();
  ProfileFacts facts;
  facts.clock = "device time";
  facts.unit_s = 1e-6;
  facts.unit = "us";
  facts.layouts = &layouts;
  facts.bytes_s = gpu_.cost_.bandwidth;
  facts.bytes_what = "a copy on this GPU moves";
  facts.floor_bytes =
      static_cast<double>(layouts.inputs.region_bytes + layouts.state.region_bytes + layouts.outputs.region_bytes);
  facts.floor_what = "everything once";
  facts.calls = format_line(
      "%zu launchers a call, caches cold, spread of %zu calls %.1f %%; a time is certain to %.1f us\n",
      plan_.launches.size(), samples.size(), 100 * spread(samples) / median(samples), gpu_.cost_.slack_s * 1e6);
  return facts;
}

void GpuEvaluation::complete_profile(Json& answer) const {
  if (!kernels_.is_null()) {
    answer["text"] = answer.value("text", "") + kernels_text_;
    answer["profile"] = kernels_;
  }
}

}  // namespace khost::judge::gpu
