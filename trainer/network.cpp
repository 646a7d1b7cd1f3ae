#include "trainer/network.h"

namespace khost::trainer {

bool WeightGate::try_read() {
  const std::lock_guard lock(mutex_);
  if (writers_ > 0) {
    return false;
  }
  ++readers_;
  return true;
}

void WeightGate::read() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return writers_ == 0; });
  ++readers_;
}

void WeightGate::end_read() {
  const std::lock_guard lock(mutex_);
  --readers_;
  changed_.notify_all();
}

void WeightGate::begin_write() {
  std::unique_lock lock(mutex_);
  ++writers_;
  changed_.wait(lock, [&] { return readers_ == 0 && !writing_; });
  writing_ = true;
}

void WeightGate::end_write() {
  const std::lock_guard lock(mutex_);
  --writers_;
  writing_ = false;
  changed_.notify_all();
}

}  // namespace khost::trainer
