#include "sandbox/judge/cuda/python_pool.h"

#include <algorithm>
#include <thread>

namespace khost::judge::gpu {

namespace {
constexpr std::size_t kReady = 2;
constexpr double kTimeout_s = 600;  // a starved machine imports for minutes

// Importing takes a core for seconds; most cores are for builds.
std::size_t makers() {
  return std::max(2u, std::thread::hardware_concurrency() / 4);
}

}  // namespace

PythonPool::PythonPool(PythonPlace place)
    : place_(std::move(place)), pool_("a Python for a candidate", kReady, makers(), [this] { return make(); }) {}

void PythonPool::begin(const GpuView& view) {
  {
    const std::scoped_lock lock(mutex_);
    view_ = view;
  }
  pool_.begin();
}

Result<std::unique_ptr<Zygote>> PythonPool::take(const GpuView& view) {
  begin(view);
  while (true) {
    Result<std::unique_ptr<Zygote>> taken = pool_.take(kTimeout_s);
    if (!taken || (*taken)->alive()) {
      return taken;
    }
  }
}

Result<std::unique_ptr<Zygote>> PythonPool::make() {
  std::unique_lock lock(mutex_);
  const GpuView view = *view_;
  lock.unlock();
  return Zygote::start(place_, "candidate", Serves::candidate, &view);
}

}  // namespace khost::judge::gpu
