#include "sandbox/judge/cuda/gpu.h"

#include <memory>

#include "sandbox/judge/cuda/calibration.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/tries.h"
#include "sandbox/judge/service/background.h"
#include "sandbox/judge/service/service.h"

namespace khost::judge::gpu {
namespace {

// The most bytes that the sets of one task may take.
std::size_t set_budget(std::size_t device_bytes) {
  return device_bytes / 4;
}

// The reference's process writes a set and ends before a candidate sees it; no other process ever gets the descriptor.
Result<SetMemory> lend_set(std::size_t bytes) {
  Result<Lent> lent = Lent::make(bytes);
  if (!lent) {
    return lent.failure();
  }
  auto owner = std::make_shared<Lent>(std::move(*lent));
  std::byte* const data = owner->data();
  const std::size_t size = owner->bytes();
  const int fd = owner->fd();
  Lent* const held = owner.get();
  return SetMemory{std::move(owner), data, size, fd, [held] { held->close_file(); }};
}

}  // namespace

void Gpu::prefetch(bool python, bool records, Queues queues) {
  if (current_ == nullptr && !view()) {
    return;  // the evaluation that needs the device reports the error
  }
  Device* const device = current_;
  if (device == nullptr) {
    return;  // it was lost just now
  }
  if (records) {
    std::call_once(recorder_, [this] { run_in_background([this] { (void)service_.device_recorders(); }); });
  }
  if (python) {
    pythons_.begin(view_of(*device));
  }
  std::call_once(adversary_, [this, device] {
    run_in_background([root = place_.root, architecture = device->architecture()] {
      (void)build_adversary(root, architecture);  // found again by its content
    });
  });
  idle_subjects(queues).begin();
}

Result<Device*> Gpu::attached() {
  Device* const device = current_;
  if (device == nullptr || device->lost()) {
    return Failure{"the GPU was lost under a candidate and is being opened again", "device"};
  }
  const Status status = device->attach();
  return status ? Result<Device*>(device) : status.failure();
}

Gpu::~Gpu() {
  if (device_) {
    (void)device_->attach();
  }
  pending_baselines_.end_all();
  tasks_.clear();
}

Status Gpu::open() {
  if (device_ && device_->lost()) {
    current_ = nullptr;
    const auto alone = schedule_.reset();
    tasks_.clear();
    lost_.push_back(std::move(device_));
    reset_device();
    cost_ = {};
  }
  if (device_) {
    return device_->attach();
  }
  Result<std::unique_ptr<Device>> device = Device::open();
  if (!device) {
    return device.failure();
  }
  device_ = std::move(*device);
  current_ = device_.get();
  return ok();
}

Result<GpuSeen> Gpu::view() {
  DeviceSchedule::Turn turn(schedule_, false);
  if (const Status ready = turn.open(); !ready) {
    return ready.failure();
  }
  const DeviceSchedule::Held held = turn.use(DeviceSchedule::Use::verify);
  if (const Status opened = open(); !opened) {
    return opened.failure();
  }
  return GpuSeen{view_of(*device_), device_->describe()["bytes"].get<std::size_t>()};
}

GpuView view_of(const Device& device) {
  const Access& access = device.access();
  return {access.nodes, access.prefixes, access.library_path, access.driver_folder};
}

Result<Device*> Gpu::device() {
  if (Device* const device = current_; device != nullptr && !device->lost()) {
    return device;
  }
  const Result<GpuSeen> opened = view();
  return opened ? attached() : opened.failure();
}

Result<Zygote*> Gpu::zygote() {
  const std::scoped_lock lock(zygote_mutex_);
  if (zygote_ && !zygote_->alive()) {
    dead_.push_back(std::move(zygote_));
  }
  if (!zygote_) {
    const Result<Device*> device = attached();
    if (!device) {
      return device.failure();
    }
    const GpuView view = view_of(**device);
    Result<std::unique_ptr<Zygote>> started = Zygote::start(place_, "reference-cuda", Serves::tasks, &view);
    if (!started) {
      return started.failure();
    }
    zygote_ = std::move(*started);
  }
  return zygote_.get();
}

Result<std::shared_ptr<Session>> Gpu::open_session(Device& device, const std::string& source, Audience audience,
                                                   bool alone) {
  Result<Zygote*> python = zygote();
  if (!python) {
    return python.failure();
  }
  const std::size_t most_to_open = alone ? SIZE_MAX : device.bytes() / kShareOfSets;
  return with_room(device, nullptr, alone, [&](Oracle oracle) {
    return Session::open(**python, source,
                         {"cuda", set_budget(device.bytes()), most_to_open, lend_set, oracle, audience});
  });
}

Result<std::shared_ptr<Task>> Gpu::task(const std::string& source, Audience audience) {
  return tasks_.get(
      source, [&] { return untimed([&](Device& device) { return open_session(device, source, audience, false); }); });
}

Result<std::shared_ptr<Task>> Gpu::task_alone(const std::string& source, Audience audience) {
  return tasks_.get_now(source, [&] { return open_session(*device_, source, audience, true); });
}

void Gpu::give_up_others(const std::shared_ptr<Task>& used) {
  tasks_.make_room(used, 0);
  tasks_.retire_residents(used, 0);
  pending_baselines_.end_all();
}

void Gpu::defer_free(std::shared_ptr<const Batch> batch) {
  std::vector<std::shared_ptr<const Batch>> over;  // freed after the lock is released
  const std::scoped_lock lock(deferred_mutex_);
  if (batch) {
    deferred_.push_back(std::move(batch));
  } else {
    over.swap(deferred_);
  }
}

// A verdict that failed through the judge, or for lack of memory that another evaluation's sets may have held, is tried
// once more; the second verdict says why the first try failed.
Result<Json> Gpu::evaluate(const Json& request) {
  const std::string kind = request.value("kind", "evaluate");
  if (kind != "evaluate") {
    return GpuEvaluation(*this, request, kind == "verify" ? Purpose::verify : Purpose::profile).run();
  }
  return with_more_tries([&] { return GpuEvaluation(*this, request, Purpose::verdict).run(); },
                         [](const Json& verdict) {
                           const std::string status = verdict.value("status", "");
                           return (status == "void" || status == "oom") && verdict.value("reason", "") != "host";
                         });
}

}  // namespace khost::judge::gpu
