// How many jails of agents begin at the same time. A jail that begins needs a core for some milliseconds; hundreds that
// begin together would each take as long as all of them, and longer than they are given.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace khost::sandbox {

class StartGate {
 public:
  // Waits for a place, which is free again when the object dies.
  StartGate() {
    State& all = state();
    std::unique_lock lock(all.mutex);
    all.freed.wait(lock, [&all] { return all.places > 0; });
    --all.places;
  }
  ~StartGate() {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    ++all.places;
    all.freed.notify_one();
  }
  StartGate(const StartGate&) = delete;
  StartGate& operator=(const StartGate&) = delete;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable freed;
    unsigned places = std::max(4U, 2 * std::thread::hardware_concurrency());
  };
  static State& state() {
    static State* const all = new State;  // never destroyed: threads may outlive main
    return *all;
  }
};

}  // namespace khost::sandbox
