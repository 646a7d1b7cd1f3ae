// Processes of baselines that come up beside others' work: how many tasks' at once, and where they wait until they are
// measured. Any thread, where nothing else is said.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "sandbox/judge/cuda/subject.h"

namespace khost::judge::gpu {

// A place among so many, as std::unique_lock takes and gives it. (std::counting_semaphore of GCC 12 can miss a
// release.)
class Places {
 public:
  explicit Places(int count) : free_(count) {}
  void lock() {
    std::unique_lock lock(mutex_);
    some_.wait(lock, [this] { return free_ > 0; });
    free_--;
  }
  void unlock() {
    const std::scoped_lock lock(mutex_);
    free_++;
    some_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  int free_;
};

using Baselines = std::map<std::string, std::deque<std::unique_ptr<GpuBaseline>>>;  // by kind

// Baselines that have come up and wait to be measured by who has asked for them, where who needs the room can end them.
class Arrivals {
 public:
  void put(const void* owner, Baselines loaded) {
    const std::scoped_lock lock(mutex_);
    loaded_[owner] = std::move(loaded);
  }
  Baselines take(const void* owner) {
    const std::scoped_lock lock(mutex_);
    const auto found = loaded_.find(owner);
    return found == loaded_.end() ? Baselines() : std::move(loaded_.extract(found).mapped());
  }
  // For who has the right to the device, as the end of a process disturbs whoever is timed.
  void end_all() {
    const std::scoped_lock lock(mutex_);
    loaded_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Baselines> loaded_;
};

}  // namespace khost::judge::gpu
