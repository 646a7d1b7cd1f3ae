// Pythons that have imported torch and serve one candidate each: importing takes seconds, so some stand ready. Any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "sandbox/judge/zygote.h"

namespace khost::judge::gpu {

class Spares {
 public:
  explicit Spares(PythonPlace place) : place_(std::move(place)) {}
  // A fresh one; waits while none is ready. The first call starts the others. host when none can be started.
  Result<std::unique_ptr<Zygote>> take(const GpuView& view);

 private:
  void make();
  PythonPlace place_;
  std::mutex mutex_;
  std::condition_variable some_, wanted_;
  std::optional<GpuView> view_;
  std::deque<std::unique_ptr<Zygote>> ready_;
  std::size_t waiting_ = 0;
  std::optional<Failure> failure_;
  bool started_ = false;
};

}  // namespace khost::judge::gpu
