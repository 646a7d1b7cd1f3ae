// Who verifies or times goes before who starts a subject ahead. Neither may be on the device beside the other, and
// without an order they take turns: each timing then waits for a start, which takes longer than it.
// With it all that are ready are timed one after the other, and then all starts run side by side. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace khost::judge::gpu {

class Precedence {
 public:
  // Held by who wants to verify or time, from when it begins to wait for the device until it has given it back.
  class Claim {
   public:
    explicit Claim(Precedence& order) : order_(order) {}
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() { drop(); }
    void take() {
      if (!held_) {
        held_ = true;
        const std::scoped_lock lock(order_.mutex_);
        order_.claims_++;
      }
    }
    void drop() {
      if (held_) {
        held_ = false;
        const std::scoped_lock lock(order_.mutex_);
        order_.claims_--;
        order_.free_.notify_all();
      }
    }

   private:
    Precedence& order_;
    bool held_ = false;
  };

  // Waits while somebody has a claim, at most so many seconds: nobody waits for ever for the others' work.
  void let_pass(double most_s) {
    std::unique_lock lock(mutex_);
    free_.wait_for(lock, std::chrono::duration<double>(most_s), [this] { return claims_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  int claims_ = 0;
};

}  // namespace khost::judge::gpu
