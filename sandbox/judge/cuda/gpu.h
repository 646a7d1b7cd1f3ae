// What all evaluations on the CUDA target share: the device, the zygote that can use it, tasks, process pools and the
// costs of the clock. Evaluations build and plan in parallel; one at a time uses the device. Any thread.
//
// Lock order, outermost first; a thread never waits for one on the left while it holds one on the right:
//   Task::measuring, DeviceSchedule::loading, Tasks::opening_ | the rest of DeviceSchedule | zygote_mutex_ | leaves
// A thread that holds the device lock (a Turn of the schedule that verifies or times) never takes Tasks::opening_: it
// calls Tasks::get_now. Leaves are the mutexes inside Tasks, PendingBaselines and Pool, and deferred_mutex_: no other
// lock is taken under them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/cuda/idle_subject.h"
#include "sandbox/judge/cuda/pending_baselines.h"
#include "sandbox/judge/cuda/python_pool.h"
#include "sandbox/judge/cuda/tasks.h"
#include "sandbox/judge/service/device_schedule.h"
#include "sandbox/judge/service/gpu_target.h"
#include "sandbox/judge/service/pool.h"
#include "sandbox/judge/task/zygote.h"
#include "sandbox/profiler/profile.h"

namespace khost::judge {
class Service;
}

namespace khost::judge::gpu {

// What an empty window costs, measured with subjects that launch nothing, and how much an adversary can gain.
struct GpuCost {
  bool known = false;
  double plan_s = 0, python_s = 0;
  double candidate_s = 0;  // an empty candidate in Python; 0: not measured yet
  double spread_s = 0;     // spread of empty windows, 10th to 90th percentile
  double slack_s = 0;
  double bandwidth = 0;  // bytes a second of a large copy
  Json evidence;         // the calibration's figures
};

GpuView view_of(const Device& device);

// The failure of an evaluation whose device was reset after it began.
inline Failure lost() {
  return {"the GPU was lost under another candidate", "device"};
}

// A third of the GPU memory is for sets, a third for resident baselines, and the rest for the candidate.
inline constexpr std::size_t kShareKept = 3;
// A task's sets are made while other evaluations run only if they take less than this part of the GPU memory.
inline constexpr std::size_t kShareOfSets = 32;
inline constexpr int kMostLoading = 3;              // tasks that load baselines in parallel, six processes each
inline constexpr double kMostWaitForTiming_s = 20;  // how long a start waits for timing to finish
inline constexpr const char* kIdleSubject = "a process with a context on the GPU";
inline constexpr std::size_t kReadyIdleSubjects = 4, kIdleSubjectMakers = 6;  // half a gigabyte of GPU memory each

class Gpu : public GpuTarget {
 public:
  Gpu(Service& service, PythonPlace place, std::string lease_path)
      : service_(service),
        place_(std::move(place)),
        schedule_(std::move(lease_path), kMostLoading, kMostWaitForTiming_s),
        pythons_(*new PythonPool(place_)),
        timed_subjects_(kIdleSubject, kReadyIdleSubjects, kIdleSubjectMakers, [this] { return open(Queues::all); }),
        verified_subjects_(kIdleSubject, kReadyIdleSubjects, kIdleSubjectMakers, [this] { return open(Queues::few); }) {
  }
  ~Gpu() override;

  Result<Json> evaluate(const Json& request) override;
  Result<GpuSeen> view() override;

 private:
  friend class GpuEvaluation;
  Status open();  // under the device lock
  // The current device, opened if it is not open yet or was lost.
  Result<Device*> device();
  // Runs preparatory work on the device (a context, sets) as a start in advance. `work` takes the device and returns a
  // Result or a Status.
  template <class Work>
  auto untimed(const Work& work) -> decltype(work(std::declval<Device&>()));
  Result<Device*> attached();  // for untimed()
  // Idle subjects for candidates that are timed, or that are only verified.
  Pool<IdleSubject>& idle_subjects(Queues queues) {
    return queues == Queues::all ? timed_subjects_ : verified_subjects_;
  }
  Result<IdleSubject> open(Queues queues) {
    return untimed([queues](Device& device) { return IdleSubject::open(device, queues); });
  }
  Result<Zygote*> zygote();
  // task() opens a new task without the device lock; it fails for a large task, and when a candidate that is being
  // verified has taken the memory. task_alone() is for callers that hold the device lock.
  Result<std::shared_ptr<Task>> task(const std::string& source, Audience audience);
  Result<std::shared_ptr<Task>> task_alone(const std::string& source, Audience audience);
  Result<std::shared_ptr<Session>> open_session(Device& device, const std::string& source, Audience audience,
                                                bool alone);
  // Keeps the sets of a finished evaluation until they can be freed without disturbing a timing; null frees what was
  // kept.
  void defer_free(std::shared_ptr<const Batch> batch);
  // Calls `make`, which allocates sets, after freeing other tasks' sets to make room. `used` is the task that they are
  // for, null for a new one. With `alone` the caller holds the device lock; then other tasks' baselines are ended as
  // well, and as a last resort the oracle is left out.
  template <class Make>
  auto with_room(const Device& device, const std::shared_ptr<Task>& used, bool alone, const Make& make)
      -> decltype(make(Oracle::needed));
  // Frees the sets and ends the baseline processes of all other tasks. The caller holds the device lock.
  void give_up_others(const std::shared_ptr<Task>& used);
  // Starts in parallel, in the background, what the first verdicts would otherwise wait for one after the other, each
  // for seconds. Blocks only until the device is open.
  void prefetch(bool python, bool records, Queues queues);

  Service& service_;
  PythonPlace place_;
  DeviceSchedule schedule_;
  std::unique_ptr<Device> device_;             // under the device lock
  std::atomic<Device*> current_{nullptr};      // the same for starts in advance
  std::vector<std::unique_ptr<Device>> lost_;  // an evaluation may still hold a pointer to one
  std::mutex zygote_mutex_;
  std::unique_ptr<Zygote> zygote_;
  std::vector<std::unique_ptr<Zygote>> dead_;  // an evaluation may still hold a pointer to one
  Tasks tasks_;
  PendingBaselines pending_baselines_;
  std::mutex deferred_mutex_;
  std::vector<std::shared_ptr<const Batch>> deferred_;
  GpuCost cost_;
  std::optional<profiler::Ceilings> ceilings_;  // measured when a profile first asks for them
  std::once_flag recorder_, adversary_;
  PythonPool& pythons_;                                   // never destroyed: an import cannot be interrupted
  Pool<IdleSubject> timed_subjects_, verified_subjects_;  // the last members: their threads use the others
};

template <class Work>
auto Gpu::untimed(const Work& work) -> decltype(work(std::declval<Device&>())) {
  const Result<DeviceSchedule::Held> held = schedule_.start();
  if (!held) {
    return held.failure();
  }
  Result<Device*> device = attached();
  return device ? work(**device) : decltype(work(**device))(device.failure());
}

template <class Make>
auto Gpu::with_room(const Device& device, const std::shared_ptr<Task>& used, bool alone, const Make& make)
    -> decltype(make(Oracle::needed)) {
  defer_free(nullptr);
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
