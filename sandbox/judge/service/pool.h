// A pool that keeps a few slow-to-create objects ready; its own threads create them. Any thread.
#pragma once

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/base/result.h"

namespace khost::judge {

template <class T>
class Pool {
 public:
  // `makers` threads keep `ready` objects available, and one more for each waiting caller. begin(), or the first
  // take(), starts the threads. `name` is what messages call one object.
  Pool(std::string name, std::size_t ready, std::size_t makers, std::function<Result<T>()> make)
      : name_(std::move(name)), ready_wanted_(ready), makers_(makers), make_(std::move(make)) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  // Waits until the objects under construction are finished.
  ~Pool() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    wanted_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void begin() {
    const std::scoped_lock lock(mutex_);
    start_makers();
  }

  // Blocks until an object is ready. timeout after `most_s` seconds; or the reason why none could be made, after which
  // the next take() tries again.
  Result<T> take(double most_s) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(most_s);
    std::unique_lock lock(mutex_);
    start_makers();
    failure_.reset();
    waiting_++;
    wanted_.notify_all();
    // A failure counts only once no other thread is still making one that could succeed.
    const bool done =
        some_.wait_until(lock, deadline, [this] { return !ready_.empty() || (failure_ && making_ == 0); });
    waiting_--;
    if (ready_.empty()) {
      return done ? *failure_
                  : Failure{name_ + " was not ready within " + std::to_string(std::lround(most_s)) +
                                " s: the machine has too much to do; ask again, or run fewer jobs",
                            "timeout"};
    }
    T taken = std::move(ready_.front());
    ready_.pop_front();
    wanted_.notify_all();
    return taken;
  }

 private:
  void start_makers() {
    while (threads_.size() < makers_) {
      threads_.emplace_back([this] { work(); });
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wanted_.wait(lock,
                   [this] { return stopped_ || (!failure_ && ready_.size() + making_ < ready_wanted_ + waiting_); });
      if (stopped_) {
        return;
      }
      making_++;
      lock.unlock();
      Result<T> made = guarded();
      lock.lock();
      making_--;
      if (made) {
        ready_.push_back(std::move(*made));
        failure_.reset();
      } else {
        failure_ = made.failure();
      }
      some_.notify_all();
    }
  }

  // An exception on this thread would end the process, so it is turned into a failure.
  Result<T> guarded() const {
    try {
      return make_();
    } catch (const std::exception& error) {
      return Failure{name_ + " could not be made: " + error.what(), "host"};
    }
  }

  const std::string name_;
  const std::size_t ready_wanted_, makers_;
  const std::function<Result<T>()> make_;
  std::mutex mutex_;
  std::condition_variable some_, wanted_;
  std::deque<T> ready_;
  std::size_t waiting_ = 0, making_ = 0;
  std::optional<Failure> failure_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace khost::judge
