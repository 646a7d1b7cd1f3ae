// The tasks that the device has met: what was measured of them, for long; their sets, while there is room; processes of
// their baselines, for fewer. Any thread, where nothing else is said.
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
#include "sandbox/judge/keyed_mutex.h"
#include "sandbox/judge/session.h"
#include "sandbox/profiler/profile.h"

namespace khost::judge::gpu {

// What each window on a task takes besides, for the size of its inputs and outputs (calibration.h).
struct TaskCost {
  double closing_s = 0;  // candidates' alone: a baseline's outputs are not sampled
  double flush_s = 0;
  bool measured = false;  // or there was no room to
};

// What follows the session is used by who has the right to the device.
struct Task {
  std::shared_ptr<Session> session;
  unsigned resets = device_resets();  // its sets are of the device as it was then
  double idle_open_s = 0;             // host time of an opening with nobody else on the device
  TaskCost cost;
  std::map<std::string, std::unique_ptr<GpuBaseline>> residents;
  std::chrono::steady_clock::time_point residents_used;  // when a baseline was last timed
  std::size_t resident_count() const;
  std::size_t resident_bytes() const;              // of the device, that they take
  std::map<std::string, int> missed;               // baselines that could not be had: how often
  std::map<std::string, profiler::Side> profiled;  // eager, compile: for readers of a profile
  std::optional<double> flops;
  // Held from when the baselines' processes begin to come up until they are measured. Who waits for it holds nothing
  // else.
  std::mutex measuring;
};

// What is kept for a task, and when it was last used.
struct Kept {
  std::size_t bytes = 0;
  std::chrono::steady_clock::time_point used;
  bool needed = false;  // now
};

// Which of these must go, so that at most `most` stay and fit into so many bytes: those used longest ago, none that is
// needed.
std::vector<std::size_t> to_give_up(const std::vector<Kept>& all, std::size_t most, std::size_t bytes);

class Tasks {
 public:
  using Open = std::function<Result<std::shared_ptr<Session>>()>;

  // The task of this source, opened by `open` when it is new. Others go on meanwhile; who asks for the same one
  // waits.
  Result<std::shared_ptr<Task>> get(const std::string& source, const Open& open);
  // The same for who holds the device, and so must not wait for who waits for it: then one may be opened twice.
  Result<std::shared_ptr<Task>> get_now(const std::string& source, const Open& open);
  // Gives up the sets of those that were used longest ago, until the others' fit into so many bytes.
  // `used` is used now, null for a task to come. For who has a context, while nobody is timed.
  void make_room(const std::shared_ptr<Task>& used, std::size_t bytes);
  // Ends the baselines' processes of those that were timed longest ago: of all but a few tasks, and until the others'
  // fit into so many bytes; not those of `used`. (Most verdicts need none: what was measured once settles them.) For
  // who has the right to the device.
  void retire_residents(const std::shared_ptr<Task>& used, std::size_t bytes);
  void clear();

 private:
  std::shared_ptr<Task> known(const std::string& source);
  void to_front(const std::shared_ptr<Task>& used);  // under mutex_
  KeyedMutex opening_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Task>> tasks_;  // last used first
};

}  // namespace khost::judge::gpu
