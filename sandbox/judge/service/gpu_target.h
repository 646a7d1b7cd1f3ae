// Target cuda as the judge's service sees it. The code stands in a library of its own, libkhost_judge_cuda.so, which
// the first request for the target loads: a judge that never gets one starts without it. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/judge/task/zygote.h"

namespace khost::judge {

class Service;

// What a jail needs to reach the device, and the device's memory.
struct GpuSeen {
  GpuView gpu;
  std::size_t bytes = 0;
};

class GpuTarget {
 public:
  virtual ~GpuTarget() = default;
  // A verdict (kind evaluate), or what an agent is told (verify, profile: {kind, ok, text, …}). Blocks.
  virtual Result<Json> evaluate(const Json& request) = 0;
  virtual Result<GpuSeen> view() = 0;
};

// Loads the library where that was not done yet, having it built where the launcher can (host/base/part.h). Opens no
// device. A failure has code "host".
Result<std::shared_ptr<GpuTarget>> open_gpu_target(Service& service, const PythonPlace& place,
                                                   const std::string& lease_path);

// What the library exports under the name khost_judge_gpu_target.
using MakeGpuTarget = GpuTarget*(Service& service, const PythonPlace& place, const std::string& lease_path);

}  // namespace khost::judge
