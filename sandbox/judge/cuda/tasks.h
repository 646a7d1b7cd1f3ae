// The tasks that were judged on the device. Measurements are kept for many tasks, sets while GPU memory lasts, baseline
// processes for a few. Any thread, unless a function says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/judge/cuda/subject.h"
#include "sandbox/judge/service/keyed_mutex.h"
#include "sandbox/judge/task/session.h"
#include "sandbox/profiler/profile.h"

namespace khost::judge::gpu {

// What each timed window of a task costs in addition, for the size of its inputs and outputs (calibration.h).
struct TaskCost {
  double closing_s = 0;  // candidates' alone: a baseline's outputs are not sampled
  double flush_s = 0;
  bool measured = false;  // false: there was no GPU memory to measure it
};

// Every member after `session` is used under the device lock (gpu.h).
struct Task {
  std::shared_ptr<Session> session;
  unsigned resets = device_resets();  // the context that its sets belong to
  double idle_open_s = 0;             // host time of an opening with nobody else on the device
  TaskCost cost;
  std::map<std::string, std::unique_ptr<GpuBaseline>> residents;
  std::chrono::steady_clock::time_point residents_used;  // when a baseline was last timed
  std::size_t resident_count() const;
  std::size_t resident_bytes() const;              // GPU memory of the resident processes
  std::map<std::string, int> missed;               // how often each baseline could not be started
  std::map<std::string, profiler::Side> profiled;  // eager, compile: for readers of a profile
  std::optional<double> flops;
  // Held from the start of the baselines' processes until they are timed. Outermost in the lock order: a thread that
  // waits for it holds no other lock.
  std::mutex measuring;
};

// The memory that is kept for a task, and when it was last used.
struct Kept {
  std::size_t bytes = 0;
  std::chrono::steady_clock::time_point used;
  bool needed = false;  // by the caller, now
};

// The indices of the entries to free, least recently used first, so that at most `most` remain and fit into `bytes`.
// Needed entries are never freed.
std::vector<std::size_t> to_give_up(const std::vector<Kept>& all, std::size_t most, std::size_t bytes);

class Tasks {
 public:
  using Open = std::function<Result<std::shared_ptr<Session>>()>;

  // The task of this source, opened by `open` when it is new. Callers for other sources do not wait; callers for the
  // same source do.
  Result<std::shared_ptr<Task>> get(const std::string& source, const Open& open);
  // For callers that hold the device lock: does not wait for another opener, which may itself be waiting for the
  // device. A task may therefore be opened twice.
  Result<std::shared_ptr<Task>> get_now(const std::string& source, const Open& open);
  // Frees the sets of the least recently used tasks until the others' fit into `bytes`. `used` is the task in use, null
  // for one that is not open yet. The caller has the context current, and nothing is being timed.
  void make_room(const std::shared_ptr<Task>& used, std::size_t bytes);
  // Ends the baseline processes of the tasks that were timed least recently, until only a few tasks have any and these
  // fit into `bytes`; never those of `used`. (Most verdicts need no process: the stored measurement settles them.) The
  // caller holds the device lock.
  void retire_residents(const std::shared_ptr<Task>& used, std::size_t bytes);
  void clear();

 private:
  std::shared_ptr<Task> known(const std::string& source);
  void to_front(const std::shared_ptr<Task>& used);  // under mutex_
  KeyedMutex opening_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Task>> tasks_;  // most recently used first
};

}  // namespace khost::judge::gpu
