#include "sandbox/judge/task/zygote_jail.h"

#include <unistd.h>

#include <filesystem>

#include "sandbox/jail/tree.h"
#include "sandbox/judge/cpu/allocator.h"

namespace khost::judge {

using sandbox::JailSpec;

namespace {

namespace fs = std::filesystem;

constexpr double kCandidateProcessor_s = 300;

std::string prefix_of(const std::string& python) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(python, error);
  return real.parent_path().parent_path().string();
}

std::size_t half_of_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE)) / 2;
}

// What a zygote is told on its command line, and what its jail shows it.
void set_program(JailSpec& spec, const PythonPlace& place, Serves serves, bool on_device, bool debugged) {
  const bool compilers = serves == Serves::compilers, candidate = serves == Serves::candidate;
  const bool confined = serves == Serves::recorders || serves == Serves::device_recorders;
  spec.argv = {place.python, "-I", place.root + "/sandbox/python/khost/process/zygote.py"};
  if (!debugged) {
    spec.argv.emplace_back("--quiet");
  }
  if (compilers) {
    spec.argv.push_back("--compile");
  }
  const std::string venv = fs::path(place.python).parent_path().parent_path().string();
  spec.readable_prefixes = {venv, prefix_of(place.python), place.root + "/sandbox/python"};
  const std::string library = sandbox::self_directory() + "/libkhost_subject_python.so";
  if (fs::exists(library)) {
    spec.readable_prefixes.push_back(library);
  }
  if (confined) {
    spec.argv.insert(spec.argv.end(), {"--confine", library});
  }
  if ((serves == Serves::tasks || compilers) && !on_device) {
    spec.argv.insert(spec.argv.end(), {"--alone", library});
  }
  const bool references = serves == Serves::tasks && !on_device;
  if (confined || candidate || references) {  // their folders are emptied between its processes
    spec.argv.emplace_back("--empties");
  }
  if (serves == Serves::device_recorders) {
    spec.argv.emplace_back("--extensions");
  }
  if (candidate) {
    spec.argv.insert(spec.argv.end(), {"--candidate", sandbox::self_directory() + "/libkhost_subject_cuda.so"});
  } else if (on_device) {
    spec.argv.push_back("--cuda");
  }
}

void set_environment(JailSpec& spec, bool compilers) {
  spec.environment = {
      {"TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor"},
      {"TORCHINDUCTOR_COMPILE_THREADS", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"PYTHONDONTWRITEBYTECODE", "1"},
      // torch.utils.cpp_extension asks for devices while it is imported. Without this CUDA's driver would
      // be started for that, and leave threads behind that children miss.
      {"PYTORCH_NVML_BASED_CUDA_CHECK", "1"}};
  if (compilers) {  // the CPU's baselines; a reference gives back what it no longer needs
    spec.environment.insert(kAllocatorSettings.begin(), kAllocatorSettings.end());
  }
}

void show_device(JailSpec& spec, const GpuView& gpu, bool candidate) {
  spec.devices = gpu.devices;
  spec.allow_memfd = !candidate;
  spec.readable_prefixes.insert(spec.readable_prefixes.end(), gpu.prefixes.begin(), gpu.prefixes.end());
  for (const char* file : {"/libkhost_subject_cuda.so", "/libkhost_profiler.so"}) {
    if (const std::string side = sandbox::self_directory() + file; fs::exists(side)) {
      spec.readable_prefixes.push_back(side);
    }
  }
  spec.environment.erase("CUDA_VISIBLE_DEVICES");
  // Triton asks ldconfig for the driver otherwise; torch asks CUDA for devices, which poisons forks.
  spec.environment.insert({{"LD_LIBRARY_PATH", gpu.library_path},
                           {"TRITON_LIBCUDA_PATH", gpu.driver_folder},
                           {"TRITON_CACHE_DIR", "/tmp/triton"},
                           {"CUDA_CACHE_PATH", "/tmp/nv"}});
  spec.environment.insert(kDriverSettings.begin(), kDriverSettings.end());
  if (candidate) {
    spec.environment.insert({{"CUDA_MODULE_LOADING", "LAZY"}, {"CUDA_CACHE_DISABLE", "1"}});
  }
}

// All tasks share a jail: their sets, the reference and the resident baselines. An address space is no measure of a
// process that maps torch.
void set_limits(JailSpec& spec, bool candidate) {
  spec.limits.processes = 512;
  spec.limits.memory_bytes = half_of_memory();
  spec.limit_address_space = false;
  spec.limits.cpu_s = candidate ? kCandidateProcessor_s : 86400;
  spec.limits.tmp_bytes = std::size_t{1} << 30;
  spec.limits.open_files = 1024;
}

}  // namespace

JailSpec zygote_jail(const PythonPlace& place, const std::string& name, Serves serves, const GpuView* gpu,
                     bool debugged) {
  const bool candidate = serves == Serves::candidate;
  JailSpec spec;
  spec.name = name;
  set_program(spec, place, serves, gpu != nullptr, debugged);
  set_environment(spec, serves == Serves::compilers);
  if (gpu != nullptr) {
    show_device(spec, *gpu, candidate);
  }
  set_limits(spec, candidate);
  return spec;
}

}  // namespace khost::judge
