// Locks by name: who wants one that is held waits, who wants another goes on. Any thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace khost::judge {

class KeyedMutex {
 public:
  class [[nodiscard]] Lock {
   public:
    Lock(KeyedMutex& owner, std::string key) : owner_(owner), key_(std::move(key)) {
      std::unique_lock lock(owner_.mutex_);
      owner_.free_.wait(lock, [this] { return owner_.held_.insert(key_).second; });
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
      const std::scoped_lock lock(owner_.mutex_);
      owner_.held_.erase(key_);
      owner_.free_.notify_all();
    }

   private:
    KeyedMutex& owner_;
    const std::string key_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  std::set<std::string> held_;
};

}  // namespace khost::judge
