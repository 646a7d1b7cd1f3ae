#include "sandbox/judge/cuda/gpu.h"

#include <memory>

#include "host/base/lease.h"
#include "host/base/sha256.h"
#include "sandbox/judge/aside.h"
#include "sandbox/judge/cuda/calibration.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/service.h"

namespace khost::judge::gpu {
namespace {

constexpr std::size_t kMostTasks = 8;
constexpr std::size_t kMostResidents = 6;  // tasks whose baselines stay: starting a compiled one again takes seconds
constexpr std::size_t kMostSets = 2;       // tasks whose sets stay: each up to a quarter of the device

// The sets of one task; those of the tasks before it are given up when the device is full.
std::size_t set_budget(std::size_t device_bytes) { return device_bytes / 4; }

// The reference's process writes a set; it ends before a candidate starts, and nobody else ever has the descriptor.
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

void Gpu::foresee(bool python, bool records) {
  if (current_ == nullptr && !view()) {
    return;  // who needs the device says why there is none
  }
  Device* const device = current_;
  if (device == nullptr) {
    return;  // it was lost just now
  }
  if (records) {
    std::call_once(recorder_, [this] { aside([this] { (void)service_.recorders(); }); });
  }
  if (python) {
    homes_.begin(view_of(*device));
  }
  std::call_once(adversary_, [this, device] {
    aside([root = place_.root, architecture = device->architecture()] {
      (void)build_adversary(root, architecture);  // found again by its content
    });
  });
  blanks_.begin();
}

// Nobody is timed while a context is made, and contexts are made while nobody wants to time.
Result<Blank> Gpu::make_blank() {
  order_.let_pass(kPatience_s);
  Result<Lease> lease = Lease::open(lease_path_);
  if (!lease) {
    return lease.failure();
  }
  const Lease::Guard guard = lease->acquire(Lease::Mode::shared);
  const std::shared_lock starting(starting_);
  Device* const device = current_;
  if (device == nullptr || device->lost()) {
    return Failure{"the GPU was lost under a candidate and is being opened again", "device"};
  }
  if (Status attached = device->attach(); !attached) {
    return attached.failure();
  }
  return Blank::open(*device);
}

Gpu::~Gpu() {
  if (device_) {
    (void)device_->attach();
  }
  tasks_.clear();
}

Status Gpu::open() {
  if (device_ && device_->lost()) {
    tasks_.clear();
    current_ = nullptr;
    const std::scoped_lock alone(starting_);
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

Result<Seen> Gpu::view() {
  const std::scoped_lock lock(mutex_);
  Result<Lease> lease = Lease::open(lease_path_);
  if (!lease) {
    return lease.failure();
  }
  const Lease::Guard guard = lease->acquire(Lease::Mode::shared);
  if (const Status opened = open(); !opened) {
    return opened.failure();
  }
  return Seen{view_of(*device_), device_->describe()["bytes"].get<std::size_t>()};
}

GpuView view_of(const Device& device) {
  const Access& access = device.access();
  return {access.nodes, access.prefixes, access.library_path, access.driver_folder};
}

Result<Zygote*> Gpu::zygote() {
  if (zygote_ && !zygote_->alive()) {
    tasks_.clear();
    zygote_.reset();
  }
  if (!zygote_) {
    const GpuView view = view_of(*device_);
    Result<std::unique_ptr<Zygote>> started = Zygote::start(place_, "reference-cuda", false, &view);
    if (!started) {
      return started.failure();
    }
    zygote_ = std::move(*started);
  }
  return zygote_.get();
}

Result<std::shared_ptr<Task>> Gpu::task(const std::string& source) {
  const std::string hash = sha256_hex(source);
  for (auto i = tasks_.begin(); i != tasks_.end(); ++i) {
    if ((*i)->session->hash() == hash) {
      tasks_.splice(tasks_.begin(), tasks_, i);
      return tasks_.front();
    }
  }
  Result<Zygote*> python = zygote();
  if (!python) {
    return python.failure();
  }
  const std::size_t bytes = device_->describe()["bytes"].get<std::size_t>();
  Result<std::shared_ptr<Session>> session = Session::open(**python, source, {"cuda", set_budget(bytes), lend_set});
  if (!session) {
    return session.failure();
  }
  auto made = std::make_shared<Task>();
  made->session = *session;
  tasks_.push_front(made);
  if (tasks_.size() > kMostTasks) {
    tasks_.pop_back();
  }
  std::size_t place = 0;
  for (const auto& task : tasks_) {
    if (place >= kMostResidents) {
      task->residents.clear();
    }
    if (place++ >= kMostSets) {
      task->session->forget_sets();
    }
  }
  return made;
}

// A verdict that failed for a reason of ours is tried once more; what remains void says why the first try was.
Result<Json> Gpu::evaluate(const Json& request) {
  const std::string kind = request.value("kind", "evaluate");
  if (kind != "evaluate") {
    return Evaluation(*this, request, kind == "verify" ? Purpose::verify : Purpose::profile).run();
  }
  Result<Json> verdict = Evaluation(*this, request, Purpose::verdict).run();
  if (!verdict || verdict->value("status", "") != "void" || (*verdict)["reason"] == "host") {
    return verdict;
  }
  const Json first = {{"reason", (*verdict)["reason"]}, {"stage", (*verdict)["stage"]}, {"detail", (*verdict)["detail"]}};
  Result<Json> again = Evaluation(*this, request, Purpose::verdict).run();
  if (again) {
    (*again)["evidence"]["retried"] = first;
  }
  return again;
}

}  // namespace khost::judge::gpu
