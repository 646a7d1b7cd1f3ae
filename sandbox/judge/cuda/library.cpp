// The face of libkhost_judge_cuda.so.
#include "sandbox/judge/cuda/gpu.h"
#include "sandbox/judge/service/gpu_target.h"

extern "C" khost::judge::GpuTarget* khost_judge_gpu_target(khost::judge::Service& service,
                                                           const khost::judge::PythonPlace& place,
                                                           const std::string& lease_path);

khost::judge::GpuTarget* khost_judge_gpu_target(khost::judge::Service& service, const khost::judge::PythonPlace& place,
                                                const std::string& lease_path) {
  return new khost::judge::gpu::Gpu(service, place, lease_path);
}
