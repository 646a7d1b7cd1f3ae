// Python processes that have imported torch and wait for a candidate; each serves one candidate only. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "sandbox/judge/service/pool.h"
#include "sandbox/judge/task/zygote.h"

namespace khost::judge::gpu {

class PythonPool {
 public:
  explicit PythonPool(PythonPlace place);
  // Starts the first processes, so that a later take() need not wait for an import.
  void begin(const GpuView& view);
  // An unused process; blocks until one is ready. host when none can be started, timeout after ten minutes.
  Result<std::unique_ptr<Zygote>> take(const GpuView& view);

 private:
  Result<std::unique_ptr<Zygote>> make();
  const PythonPlace place_;
  std::mutex mutex_;
  std::optional<GpuView> view_;
  Pool<std::unique_ptr<Zygote>> pool_;
};

}  // namespace khost::judge::gpu
