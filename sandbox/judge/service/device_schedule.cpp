#include "sandbox/judge/service/device_schedule.h"

#include <chrono>
#include <utility>

namespace khost::judge {

void Semaphore::lock() {
  std::unique_lock lock(mutex_);
  some_.wait(lock, [this] { return free_ > 0; });
  free_--;
}

void Semaphore::unlock() {
  const std::scoped_lock lock(mutex_);
  free_++;
  some_.notify_one();
}

Status DeviceSchedule::Turn::open() {
  Result<Lease> lease = Lease::open(schedule_.lease_path_);
  if (!lease) {
    return lease.failure();
  }
  lease_.emplace(std::move(*lease));
  return ok();
}

void DeviceSchedule::Turn::claim() {
  if (times_ && !claims_) {
    claims_ = true;
    const std::scoped_lock lock(schedule_.claims_mutex_);
    schedule_.claims_++;
  }
}

void DeviceSchedule::Turn::drop_claim() {
  if (claims_) {
    claims_ = false;
    const std::scoped_lock lock(schedule_.claims_mutex_);
    schedule_.claims_--;
    schedule_.unclaimed_.notify_all();
  }
}

void DeviceSchedule::Turn::leave_ending(Held& held) {
  held.starting_ = std::shared_lock(schedule_.starts_);
  leave();
}

void DeviceSchedule::Turn::leave() {
  if (device_lock_) {
    device_lock_.unlock();
  }
  drop_claim();
}

DeviceSchedule::Held DeviceSchedule::Turn::use(Use use) {
  claim();
  if (!device_lock_) {
    device_lock_.lock();
  }
  return {std::nullopt, lease_->acquire(use == Use::time ? Lease::Mode::exclusive : Lease::Mode::shared), {}};
}

DeviceSchedule::Held DeviceSchedule::Turn::start(Start start) {
  if (device_lock_) {
    device_lock_.unlock();
  }
  if (start == Start::next) {
    claim();
  } else {
    drop_claim();
    schedule_.wait_until_unclaimed();
  }
  Lease::Guard lease = lease_->acquire(Lease::Mode::shared);
  return {std::nullopt, std::move(lease), std::shared_lock(schedule_.starts_)};
}

Result<DeviceSchedule::Held> DeviceSchedule::start() {
  wait_until_unclaimed();
  Result<Lease> lease = Lease::open(lease_path_);
  if (!lease) {
    return lease.failure();
  }
  Lease::Guard leased = lease->acquire(Lease::Mode::shared);
  return Held(std::move(*lease), std::move(leased), std::shared_lock(starts_));
}

void DeviceSchedule::wait_until_unclaimed() {
  std::unique_lock lock(claims_mutex_);
  unclaimed_.wait_for(lock, std::chrono::duration<double>(wait_s_), [this] { return claims_ == 0; });
}

bool DeviceSchedule::reserve(int most) {
  if (reserved_.fetch_add(1) < most) {
    return true;
  }
  reserved_--;
  return false;
}

}  // namespace khost::judge
