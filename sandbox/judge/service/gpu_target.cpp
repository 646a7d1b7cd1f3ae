#include "sandbox/judge/service/gpu_target.h"

#include <dlfcn.h>

#include "host/base/part.h"

namespace khost::judge {

Result<std::shared_ptr<GpuTarget>> open_gpu_target(Service& service, const PythonPlace& place,
                                                   const std::string& lease_path) {
  const Result<void*> library = load_part({"judge-cuda", "libkhost_judge_cuda.so",
                                           "this khost was built without the CUDA toolkit, so it has no target cuda"});
  if (!library) {
    return library.failure();
  }
  auto* const make = reinterpret_cast<MakeGpuTarget*>(dlsym(*library, "khost_judge_gpu_target"));
  if (make == nullptr) {
    return Failure{"libkhost_judge_cuda.so has no khost_judge_gpu_target", "host"};
  }
  return std::shared_ptr<GpuTarget>(make(service, place, lease_path));
}

}  // namespace khost::judge
