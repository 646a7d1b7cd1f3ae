// The control page that a subject and the judge share: who may run, and whether the last call came back.
// The subject can write all of it, so the judge believes nothing it reads here: `done` only says that it may
// look at the outputs, `status` and `message` are text for a person. One writer per field: the judge writes
// `go`, the subject writes the rest. Both sides may call from any thread; the waits sleep in futex(2).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace khost::sandbox {

inline constexpr std::size_t kControlBytes = 4096;
inline constexpr std::uint32_t kReady = 1;           // `done` after the set-up; calls count from 2
inline constexpr std::uint32_t kExit = 0xffffffffu;  // `go`: leave

struct ControlPage {
  std::atomic<std::uint32_t> go;
  std::atomic<std::uint32_t> done;
  std::atomic<std::uint32_t> status;  // of the call `done`: 0, or what the launcher returned
  std::atomic<std::uint32_t>
      stamp;           // low half of CLOCK_MONOTONIC in ns when it acknowledged; only calibration reads it
  char message[2048];  // why the set-up or a call failed; not trusted to be terminated
};
static_assert(sizeof(ControlPage) <= kControlBytes);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Sleeps until `word` is `wanted` or kExit and returns the value seen; after `timeout_s` returns what stands
// there then. A negative timeout waits for ever. The mapping must be shared: the futex is not a private one.
inline std::uint32_t futex_wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t wanted,
                                    double timeout_s = -1) {
  timespec deadline{};
  if (timeout_s >= 0) {
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    const double whole = static_cast<double>(deadline.tv_nsec) * 1e-9 + timeout_s;
    deadline.tv_sec += static_cast<time_t>(whole);
    deadline.tv_nsec = static_cast<long>((whole - static_cast<double>(static_cast<time_t>(whole))) * 1e9);
  }
  while (true) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (seen == wanted || seen == kExit) {
      return seen;
    }
    // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so a wake-up for nothing costs no time.
    const long rc = syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT_BITSET, seen,
                            timeout_s >= 0 ? &deadline : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (rc == -1 && errno == ETIMEDOUT) {
      return word.load(std::memory_order_acquire);
    }
  }
}

inline void futex_post(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Judge: lets the subject run call `seq` (2, 3, …), or kExit.
inline void post_go(ControlPage& page, std::uint32_t seq) {
  futex_post(page.go, seq);
}

// Judge: true when call `seq` (or kReady) was acknowledged within the time.
inline bool wait_done(const ControlPage& page, std::uint32_t seq, double timeout_s) {
  return futex_wait_for(page.done, seq, timeout_s) == seq;
}

// Subject: false when it is told to leave.
inline bool wait_go(const ControlPage& page, std::uint32_t seq) {
  return futex_wait_for(page.go, seq) == seq;
}

inline std::uint32_t clock_stamp() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now.tv_sec) * 1000000000u +
                                    static_cast<std::uint64_t>(now.tv_nsec));
}

// Subject: says that call `seq` (or the set-up, kReady) is over.
inline void acknowledge(ControlPage& page, std::uint32_t seq, std::uint32_t status) {
  page.stamp.store(clock_stamp(), std::memory_order_relaxed);
  page.status.store(status, std::memory_order_relaxed);
  futex_post(page.done, seq);
}

inline void set_message(ControlPage& page, const char* text) {
  std::snprintf(page.message, sizeof page.message, "%s", text);
}

}  // namespace khost::sandbox
