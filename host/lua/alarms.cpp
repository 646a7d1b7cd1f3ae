#include "host/lua/alarms.h"

#include <algorithm>

namespace khost::lua {

void Alarms::set(uint64_t id, Time when) {
  const bool first = entries_.empty() || when < entries_.front().when;
  entries_.push_back({when, id});
  std::push_heap(entries_.begin(), entries_.end(), later);
  if (first) {
    wait_for_first();
  }
}

void Alarms::prune(const std::function<bool(uint64_t id, Time when)>& wanted) {
  std::erase_if(entries_, [&](const Entry& entry) { return !wanted(entry.id, entry.when); });
  std::make_heap(entries_.begin(), entries_.end(), later);
}

void Alarms::clear() {
  entries_.clear();
  timer_.cancel();
}

void Alarms::wait_for_first() {
  timer_.expires_at(entries_.front().when);  // ends the wait for the one that was first until now
  timer_.async_wait([this](const boost::system::error_code& stopped) {
    if (!stopped) {
      ring_due();
    }
  });
}

void Alarms::ring_due() {
  const Time now = std::chrono::steady_clock::now();
  while (!entries_.empty() && entries_.front().when <= now) {
    const Entry due = entries_.front();
    std::pop_heap(entries_.begin(), entries_.end(), later);
    entries_.pop_back();
    ring_(due.id, due.when);
  }
  if (!entries_.empty()) {
    wait_for_first();
  }
}

}  // namespace khost::lua
