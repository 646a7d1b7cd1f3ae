// Where baseline processes that were loaded in the background wait until they are timed. Any thread, unless a function
// says otherwise.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "sandbox/judge/cuda/subject.h"

namespace khost::judge::gpu {

using Baselines = std::map<std::string, std::deque<std::unique_ptr<GpuBaseline>>>;  // by kind

// Loaded baseline processes that wait for their requester to time them. An evaluation that needs their GPU memory may
// end them here.
class PendingBaselines {
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
  // The caller holds the device lock, because the end of a process disturbs a timing in progress.
  void end_all() {
    const std::scoped_lock lock(mutex_);
    loaded_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Baselines> loaded_;
};

}  // namespace khost::judge::gpu
