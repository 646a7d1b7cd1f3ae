// Who may use the card, and when. One schedule for each card and judge; the lease makes it hold between judges too.
//
//   state      who uses the card                                               entered by
//   idle       nobody
//   starting   starts in advance, any number: contexts, sets, loading models   start(), Turn::start()
//   verifying  one evaluation; starts in advance go on beside it               Turn::use(Use::verify)
//   timing     one evaluation and nothing else, of no other judge either       Turn::use(Use::time)
//   resetting  one evaluation that found the card lost; no start is under way  reset(), out of verifying or timing
//
// An evaluation has priority over starts in advance: the two must not use the card at the same time when it times, and
// without a priority they would alternate, each timing waiting for a start that takes longer than itself. With it every
// evaluation that is ready is timed first, and then all starts run in parallel. An evaluation says so by a claim, from
// the moment it begins to wait for the card until it leaves. One that is verified only claims nothing: starts go on
// beside it, and were they held up, a load of such evaluations would wait for processes that nobody may start.
//
// Lock order, outermost first: loading slots, the device lock (of the evaluation that verifies or times), the lease (a
// file), starts. The claims' own mutex is a leaf. Needs no GPU. Any thread; a Turn belongs to one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "host/base/lease.h"

namespace khost::judge {

// A counting semaphore that std::unique_lock can hold. (std::counting_semaphore of GCC 12 can miss a release.)
class Semaphore {
 public:
  explicit Semaphore(int count) : free_(count) {}
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  int free_;
};

class DeviceSchedule {
 public:
  enum class Use { verify, time };
  enum class Start {
    next,     // of an evaluation that is timed next: no other start may begin that it would have to wait for
    patient,  // one that takes long: evaluations that are ready go first
  };

  // `loading`: tasks whose baselines may load at once. `wait_s`: the longest that a start waits for evaluations, so
  // that evaluations cannot hold it up without end.
  DeviceSchedule(std::string lease_path, int loading, double wait_s)
      : lease_path_(std::move(lease_path)), wait_s_(wait_s), loading_(loading) {}

  // The card is used until this is destroyed.
  class [[nodiscard]] Held {
   public:
    Held(Held&&) = default;

   private:
    friend class DeviceSchedule;
    Held(std::optional<Lease> own, Lease::Guard leased, std::shared_lock<std::shared_mutex> starting)
        : own_(std::move(own)), leased_(std::move(leased)), starting_(std::move(starting)) {}
    std::optional<Lease> own_;  // of a start that has no Turn
    Lease::Guard leased_;
    std::shared_lock<std::shared_mutex> starting_;
  };

  // An evaluation's place on the card. Between two uses it keeps the device lock, so that no other evaluation comes
  // between its verification and its timing, unless it starts something or leaves.
  class Turn {
   public:
    // `times`: whether the evaluation is to be timed, which gives it priority over starts in advance.
    Turn(DeviceSchedule& schedule, bool times)
        : schedule_(schedule), times_(times), device_lock_(schedule.device_lock_, std::defer_lock) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { leave(); }
    Status open();  // before the others; fails with io when the lease's file cannot be opened
    Held use(Use use);
    Held start(Start start);
    // Leaves the card to the next evaluation that verifies, while a process of this one ends: until `held` is destroyed
    // that counts as a start in advance, so that nothing is timed meanwhile.
    void leave_ending(Held& held);
    void leave();

   private:
    void claim();
    void drop_claim();
    DeviceSchedule& schedule_;
    const bool times_;
    std::optional<Lease> lease_;
    std::unique_lock<std::mutex> device_lock_;
    bool claims_ = false;
  };

  // A start in advance for nobody in particular. Fails with io as Turn::open().
  Result<Held> start();
  // For a caller with the device lock: waits until no start is under way, and none begins while this is held.
  std::unique_lock<std::shared_mutex> reset() { return std::unique_lock(starts_); }
  // One of the tasks that load their baselines now; blocks until there is room.
  std::unique_lock<Semaphore> loading() { return std::unique_lock(loading_); }

  // Processes that wait for their candidate's brackets, over all evaluations. False when there are `most` already.
  bool reserve(int most);
  void release(int count) { reserved_ -= count; }
  int reserved() const { return reserved_; }

 private:
  void wait_until_unclaimed();
  const std::string lease_path_;
  const double wait_s_;
  Semaphore loading_;
  std::mutex device_lock_;
  std::shared_mutex starts_;  // shared by starts in advance
  std::mutex claims_mutex_;
  std::condition_variable unclaimed_;
  int claims_ = 0;
  std::atomic<int> reserved_{0};
};

}  // namespace khost::judge
