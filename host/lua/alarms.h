// Times at which tasks wake, on one timer. A timer of its own with its handler takes half a kilobyte, an entry here
// sixteen bytes: ten thousand episodes sleep at once. Belongs to the loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace khost::lua {

class Alarms {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Ring = std::function<void(uint64_t id, Time when)>;

  // `ring` is called for every entry whose time has come, also for one whose owner no longer waits.
  Alarms(boost::asio::io_context& io, Ring ring) : timer_(io), ring_(std::move(ring)) {}

  void set(uint64_t id, Time when);
  size_t size() const { return entries_.size(); }
  // Drops the entries of which `wanted` is false.
  void prune(const std::function<bool(uint64_t id, Time when)>& wanted);
  // Drops all: nothing holds the loop any more.
  void clear();

 private:
  struct Entry {
    Time when;
    uint64_t id = 0;
  };
  static bool later(const Entry& a, const Entry& b) { return a.when > b.when; }
  void wait_for_first();
  void ring_due();

  boost::asio::steady_timer timer_;
  Ring ring_;
  std::vector<Entry> entries_;  // a heap, the earliest first
};

}  // namespace khost::lua
