#include "sandbox/judge/cuda/spares.h"

#include <thread>

namespace khost::judge::gpu {
namespace {
constexpr std::size_t kReady = 2;
constexpr int kMakers = 2;
}  // namespace

Result<std::unique_ptr<Zygote>> Spares::take(const GpuView& view) {
  std::unique_lock lock(mutex_);
  view_ = view;
  if (!started_) {
    started_ = true;
    for (int i = 0; i < kMakers; i++) {
      std::thread([this] { make(); }).detach();  // as long as the judge: this object is never given up
    }
  }
  failure_.reset();
  while (true) {
    waiting_++;
    wanted_.notify_all();
    some_.wait(lock, [&] { return !ready_.empty() || failure_; });
    waiting_--;
    if (ready_.empty()) {
      return *failure_;
    }
    std::unique_ptr<Zygote> taken = std::move(ready_.front());
    ready_.pop_front();
    wanted_.notify_all();
    if (taken->alive()) {
      return taken;
    }
  }
}

void Spares::make() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [&] { return ready_.size() < kReady + waiting_ && (!failure_ || waiting_ > 0); });
    const GpuView view = *view_;
    lock.unlock();
    Result<std::unique_ptr<Zygote>> made = Zygote::start(place_, "candidate", false, &view, true);
    lock.lock();
    if (made) {
      ready_.push_back(std::move(*made));
    } else {
      failure_ = made.failure();
    }
    some_.notify_all();
  }
}

}  // namespace khost::judge::gpu
