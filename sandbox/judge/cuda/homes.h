// Homes of candidates in Python: Pythons that have imported torch and serve one candidate each. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "sandbox/judge/stock.h"
#include "sandbox/judge/zygote.h"

namespace khost::judge::gpu {

class Homes {
 public:
  explicit Homes(PythonPlace place);
  // Starts the first ones, for who will take one soon.
  void begin(const GpuView& view);
  // A fresh one; waits while none is ready. host when none can be started, timeout after ten minutes.
  Result<std::unique_ptr<Zygote>> take(const GpuView& view);

 private:
  Result<std::unique_ptr<Zygote>> make();
  const PythonPlace place_;
  std::mutex mutex_;
  std::optional<GpuView> view_;
  Stock<std::unique_ptr<Zygote>> stock_;
};

}  // namespace khost::judge::gpu
