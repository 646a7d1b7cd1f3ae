#include "host/modules/workers.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace khost {
namespace {

class Workers {
 public:
  void submit(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++unfinished_;
    if (queue_.size() > idle_) {
      std::thread([this] { serve(); }).detach();
    } else {
      wake_.notify_one();
    }
  }

  void finish() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return unfinished_ == 0; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      const bool found = wake_.wait_for(lock, std::chrono::seconds(10), [this] { return !queue_.empty(); });
      --idle_;
      if (!found) {
        return;
      }
      std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // what it captured dies here, before it counts as finished
      lock.lock();
      if (--unfinished_ == 0) {
        finished_.notify_all();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::deque<std::function<void()>> queue_;
  size_t idle_ = 0;
  size_t unfinished_ = 0;
};

// Never destroyed: idle threads may outlive main.
Workers& workers() {
  static Workers* const all = new Workers;
  return *all;
}

}  // namespace

void submit_blocking(std::function<void()> work) {
  workers().submit(std::move(work));
}
void finish_blocking() {
  workers().finish();
}

}  // namespace khost
