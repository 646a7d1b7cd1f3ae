// What the jobs for the CUDA target share: the device, the zygote with the device in it, tasks and the costs of the
// clock. Jobs build and plan side by side; one at a time uses the device. Any thread.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "sandbox/judge/cuda/blank.h"
#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/cuda/homes.h"
#include "sandbox/judge/cuda/precedence.h"
#include "sandbox/judge/cuda/subject.h"
#include "sandbox/judge/session.h"
#include "sandbox/judge/stock.h"
#include "sandbox/judge/zygote.h"
#include "sandbox/profiler/profile.h"

namespace khost::judge {
class Service;
}

namespace khost::judge::gpu {

// What each window on a task takes besides, for the size of its inputs and outputs (calibration.h).
struct TaskCost {
  double closing_s = 0;  // candidates' alone: a baseline's outputs are not sampled
  double flush_s = 0;
};

// A task as the device holds it.
struct Task {
  std::shared_ptr<Session> session;
  double idle_open_s = 0;  // host time of an opening with nobody else on the device
  TaskCost cost;
  std::map<std::string, std::unique_ptr<GpuBaseline>> residents;
  std::map<std::string, profiler::Side> profiled;  // eager, compile: for readers of a profile
  std::optional<double> flops;
};

// What a window costs by itself, measured with subjects that launch nothing, and what an adversary gains.
struct GpuCost {
  bool known = false;
  double plan_s = 0, python_s = 0;
  double candidate_s = 0;  // of a candidate in Python; 0: not measured yet
  double spread_s = 0;  // of the empty windows, 10th to 90th percentile
  double slack_s = 0;
  double bandwidth = 0;  // bytes a second of a large copy
  Json evidence;        // of the calibration
};

// What a jail needs to reach the device, and the device's memory.
struct Seen {
  GpuView gpu;
  std::size_t bytes = 0;
};

GpuView view_of(const Device& device);

inline constexpr double kPatience_s = 20;  // of who starts subjects, for those that are timed
inline constexpr std::size_t kReadyBlanks = 4, kBlankMakers = 6;  // each takes half a gigabyte of the device

class Gpu {
 public:
  Gpu(Service& service, PythonPlace place, std::string lease_path)
      : service_(service),
        place_(std::move(place)),
        lease_path_(std::move(lease_path)),
        homes_(*new Homes(place_)),
        blanks_("a process with a context on the GPU", kReadyBlanks, kBlankMakers, [this] { return make_blank(); }) {}
  ~Gpu();

  // A verdict (kind evaluate), or what an agent is told (verify, profile: {kind, ok, text, …}). Blocks.
  Result<Json> evaluate(const Json& request);
  Result<Seen> view();

 private:
  friend class Evaluation;
  Status open();  // under mutex_
  Result<Zygote*> zygote();
  Result<std::shared_ptr<Task>> task(const std::string& source);
  Result<Blank> make_blank();
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
  std::unique_ptr<Zygote> zygote_;
  std::list<std::shared_ptr<Task>> tasks_;
  GpuCost cost_;
  std::optional<profiler::Ceilings> ceilings_;  // once a profile asked for them
  std::once_flag recorder_, adversary_;
  Homes& homes_;         // never given up: an import cannot be broken off
  Stock<Blank> blanks_;  // the last member: its threads use the others
};

}  // namespace khost::judge::gpu
