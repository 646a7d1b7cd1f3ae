// What the jobs for the CUDA target share: the device, the zygote with the device in it, tasks and the costs of the
// clock. Jobs build and plan side by side; one at a time uses the device. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "host/base/lease.h"
#include "sandbox/judge/cuda/arrivals.h"
#include "sandbox/judge/cuda/blank.h"
#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/cuda/homes.h"
#include "sandbox/judge/cuda/precedence.h"
#include "sandbox/judge/cuda/tasks.h"
#include "sandbox/judge/gpu_target.h"
#include "sandbox/judge/stock.h"
#include "sandbox/judge/zygote.h"
#include "sandbox/profiler/profile.h"

namespace khost::judge {
class Service;
}

namespace khost::judge::gpu {

// What a window costs by itself, measured with subjects that launch nothing, and what an adversary gains.
struct GpuCost {
  bool known = false;
  double plan_s = 0, python_s = 0;
  double candidate_s = 0;  // of a candidate in Python; 0: not measured yet
  double spread_s = 0;     // of the empty windows, 10th to 90th percentile
  double slack_s = 0;
  double bandwidth = 0;  // bytes a second of a large copy
  Json evidence;         // of the calibration
};

GpuView view_of(const Device& device);

// What is said to who began with a device that is no longer there.
inline Failure lost() {
  return {"the GPU was lost under another candidate", "device"};
}

// A third of the device is for sets, a third for baselines that stay, and what is left for who is judged.
inline constexpr std::size_t kShareKept = 3;
inline constexpr std::size_t kShareOfSets =
    32;                                    // all sets of a task that are made beside others' take less of the device
inline constexpr int kMostComingUp = 3;    // tasks whose baselines come up side by side, six processes each
inline constexpr double kPatience_s = 20;  // of who starts subjects, for those that are timed
inline constexpr std::size_t kReadyBlanks = 4, kBlankMakers = 6;  // each takes half a gigabyte of the device

class Gpu : public GpuTarget {
 public:
  Gpu(Service& service, PythonPlace place, std::string lease_path)
      : service_(service),
        place_(std::move(place)),
        lease_path_(std::move(lease_path)),
        homes_(*new Homes(place_)),
        blanks_("a process with a context on the GPU", kReadyBlanks, kBlankMakers,
                [this] { return untimed([](Device& device) { return Blank::open(device); }); }) {}
  ~Gpu() override;

  Result<Json> evaluate(const Json& request) override;
  Result<GpuSeen> view() override;

 private:
  friend class Evaluation;
  Status open();  // under mutex_
  // The device as it is now, opened when nobody did or when it was lost.
  Result<Device*> device();
  // Work on the device for later - a context, sets - of who has no right to it: done while nobody is timed or about to
  // be, beside other such work. `work` takes the device and gives a Result or a Status.
  template <class Work>
  auto untimed(const Work& work) -> decltype(work(std::declval<Device&>()));
  Result<Device*> attached();  // for untimed()
  Result<Zygote*> zygote();
  // Opened without the right to the device when it is new: it fails for a task that is large, and where a candidate
  // that is verified meanwhile is in the way. Alone: for who has the right.
  Result<std::shared_ptr<Task>> task(const std::string& source);
  Result<std::shared_ptr<Task>> task_alone(const std::string& source);
  Result<std::shared_ptr<Session>> open_session(Device& device, const std::string& source, bool alone);
  // Takes sets that an evaluation leaves behind: giving memory back disturbs whoever is timed.
  void leave(std::shared_ptr<const Batch> batch);
  // What `make` makes takes sets: others' are given up for them. `used`: the task that they are for, null for a new
  // one. `alone`: for who has the right to the device; then others' baselines are given up too, and at last the oracle.
  template <class Make>
  auto with_room(const Device& device, const std::shared_ptr<Task>& used, bool alone, const Make& make)
      -> decltype(make(Oracle::needed));
  // Gives up all sets and baselines but this task's own that stay. For who has the right to the device.
  void give_up_others(const std::shared_ptr<Task>& used);
  // Begins at once, side by side, what the first verdicts will need one after the other and what takes seconds each.
  // Waits for nothing but the device.
  void foresee(bool python, bool records);

  Service& service_;
  PythonPlace place_;
  std::string lease_path_;
  std::mutex mutex_;  // the right to use the device
  Precedence order_;
  std::unique_ptr<Device> device_;
  std::atomic<Device*> current_{nullptr};      // for those who start subjects ahead, without the right to it
  std::shared_mutex starting_;                 // shared by them, after the lease; alone to reset a lost device
  std::atomic<int> ahead_{0};                  // contexts that wait for brackets
  std::vector<std::unique_ptr<Device>> lost_;  // somebody may still look at them
  std::mutex zygote_mutex_;
  std::unique_ptr<Zygote> zygote_;
  std::vector<std::unique_ptr<Zygote>> dead_;  // a job may still hold one
  Tasks tasks_;
  Places coming_up_{kMostComingUp};
  Arrivals arrivals_;
  std::mutex left_mutex_;
  std::vector<std::shared_ptr<const Batch>> left_;
  GpuCost cost_;
  std::optional<profiler::Ceilings> ceilings_;  // once a profile asked for them
  std::once_flag recorder_, adversary_;
  Homes& homes_;         // never given up: an import cannot be broken off
  Stock<Blank> blanks_;  // the last member: its threads use the others
};

template <class Work>
auto Gpu::untimed(const Work& work) -> decltype(work(std::declval<Device&>())) {
  order_.let_pass(kPatience_s);
  Result<Lease> lease = Lease::open(lease_path_);
  if (!lease) {
    return lease.failure();
  }
  const Lease::Guard guard = lease->acquire(Lease::Mode::shared);
  const std::shared_lock starting(starting_);
  Result<Device*> device = attached();
  return device ? work(**device) : decltype(work(**device))(device.failure());
}

template <class Make>
auto Gpu::with_room(const Device& device, const std::shared_ptr<Task>& used, bool alone, const Make& make)
    -> decltype(make(Oracle::needed)) {
  leave(nullptr);
  tasks_.make_room(used, device.bytes() / kShareKept);
  auto made = make(Oracle::needed);
  if (!made && made.failure().code == "limit") {
    if (alone) {
      give_up_others(used);
    } else {
      tasks_.make_room(used, 0);
    }
    made = make(alone ? Oracle::where_it_fits : Oracle::needed);
  }
  return made;
}

}  // namespace khost::judge::gpu
