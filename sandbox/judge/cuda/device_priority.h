// Verification and timing have priority over starting processes in advance. The two must not use the device at the same
// time; without a priority they would alternate, and each timing would wait for a start that takes longer than itself.
// With it every ready evaluation is timed first, and then all starts run in parallel. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace khost::judge::gpu {

class DevicePriority {
 public:
  // An evaluation holds a claim from the moment it begins to wait for the device until it has released it.
  class Claim {
   public:
    explicit Claim(DevicePriority& priority) : priority_(priority) {}
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() { drop(); }
    void take() {
      if (!held_) {
        held_ = true;
        const std::scoped_lock lock(priority_.mutex_);
        priority_.claims_++;
      }
    }
    void drop() {
      if (held_) {
        held_ = false;
        const std::scoped_lock lock(priority_.mutex_);
        priority_.claims_--;
        priority_.free_.notify_all();
      }
    }

   private:
    DevicePriority& priority_;
    bool held_ = false;
  };

  // Blocks while any claim is held, but at most `most_s` seconds, so that a start is never delayed indefinitely.
  void wait_until_unclaimed(double most_s) {
    std::unique_lock lock(mutex_);
    free_.wait_for(lock, std::chrono::duration<double>(most_s), [this] { return claims_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  int claims_ = 0;
};

}  // namespace khost::judge::gpu
