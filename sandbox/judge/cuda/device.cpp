#include "sandbox/judge/cuda/device.h"

#include "sandbox/judge/cuda/nvml.h"

#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace khost::judge::gpu {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

std::vector<std::string> found(const std::string& pattern) {
  std::vector<std::string> result;
  glob_t list{};
  if (glob(pattern.c_str(), 0, nullptr, &list) == 0) {
    result.assign(list.gl_pathv, list.gl_pathv + list.gl_pathc);
  }
  globfree(&list);
  return result;
}

// The node of this GPU: its minor number is the driver's, not CUDA's ordinal.
std::vector<std::string> node_of(const std::string& bus) {
  std::string name = bus;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::ifstream file("/proc/driver/nvidia/gpus/" + name + "/information");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Device Minor:", 0) == 0) {
      const std::string node = "/dev/nvidia" + line.substr(line.find_last_of(" \t") + 1);
      if (access(node.c_str(), R_OK | W_OK) == 0) {
        return {node};
      }
    }
  }
  return found("/dev/nvidia[0-9]*");
}

Access access_to(const std::string& bus) {
  Access result;
  result.nodes = node_of(bus);
  for (const char* node : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) {
    if (access(node, F_OK) == 0) {
      result.nodes.emplace_back(node);
    }
  }
  std::error_code error;
  const Result<const sandbox::Driver*> driver = sandbox::driver();
  result.driver_folder = driver ? fs::path((*driver)->path).parent_path().string() : "";
  const fs::path real = driver ? fs::weakly_canonical((*driver)->path, error) : fs::path();
  std::vector<std::string> folders = {result.driver_folder, real.parent_path().string()};
  const char* home = getenv("CUDA_HOME");
  folders.push_back(std::string(home != nullptr ? home : "/usr/local/cuda") + "/lib64");
  for (const std::string& folder : folders) {
    if (folder.empty() || !fs::is_directory(folder, error)) {
      continue;
    }
    result.library_path += (result.library_path.empty() ? "" : ":") + folder;
    const std::string place = fs::weakly_canonical(folder, error).string();
    for (const std::string& name : {folder, place}) {
      if (name.rfind("/usr", 0) != 0 && name.rfind("/lib", 0) != 0 &&
          std::find(result.prefixes.begin(), result.prefixes.end(), name) == result.prefixes.end()) {
        result.prefixes.push_back(name);
      }
    }
  }
  return result;
}

std::atomic<unsigned> resets{0};

}  // namespace

Failure cuda_failure(const std::string& what, cudaError_t error) {
  return Failure{what + ": " + cudaGetErrorString(error), error == cudaErrorMemoryAllocation ? "limit" : "device"};
}

unsigned device_resets() {
  return resets;
}

void reset_device() {
  resets++;
  cudaDeviceReset();
}

Memory::~Memory() {
  if (base_ != nullptr && resets_ == device_resets()) {
    cudaFree(base_);
  }
}

Lent::~Lent() {
  if (resets_ == device_resets()) {
    sandbox::unmap_memory(memory_);
  }
}

Result<Memory> Memory::make(std::size_t bytes) {
  Memory memory;
  void* base = nullptr;
  const std::size_t rounded = std::max<std::size_t>(bytes, 16);
  if (const cudaError_t error = cudaMalloc(&base, rounded); error != cudaSuccess) {
    cudaGetLastError();
    return cuda_failure(std::to_string(bytes >> 20) + " MiB of device memory", error);
  }
  memory.base_ = static_cast<std::byte*>(base);
  memory.bytes_ = rounded;
  return memory;
}

Result<Lent> Lent::make(std::size_t bytes) {
  Lent lent;
  if (bytes == 0) {
    return lent;
  }
  const Result<std::size_t> step = sandbox::granularity_of();
  if (!step) {
    return step.failure();
  }
  Result<sandbox::SharedMemory> memory = sandbox::map_memory((bytes + *step - 1) / *step * *step);
  if (!memory) {
    return memory.failure();
  }
  lent.memory_ = *memory;
  const Result<int> fd = sandbox::export_memory(lent.memory_);
  if (!fd) {
    return fd.failure();
  }
  lent.fd_ = sandbox::Fd(*fd);
  return lent;
}

Result<std::unique_ptr<Device>> Device::open() {
  std::unique_ptr<Device> device(new Device);
  if (Status status = sandbox::use_device(0); !status) {
    return status.failure();
  }
  cudaDeviceProp properties{};
  cudaError_t error = cudaSetDevice(0);
  if (error == cudaSuccess) {
    error = cudaGetDeviceProperties(&properties, 0);
  }
  if (error == cudaSuccess) {
    error = cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking);
  }
  char bus[32] = "";
  if (error == cudaSuccess) {
    error = cudaDeviceGetPCIBusId(bus, sizeof bus, 0);
  }
  if (error != cudaSuccess) {
    return cuda_failure("the GPU", error);
  }
  cudaDriverGetVersion(&device->driver_version_);
  device->name_ = properties.name;
  device->architecture_ = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  device->multiprocessors_ = properties.multiProcessorCount;
  device->total_bytes_ = properties.totalGlobalMem;
  // The bus id of CUDA has a domain of 4 digits, the driver's folder as well.
  device->bus_ = bus;
  device->access_ = access_to(bus);
  Result<Memory> scrub = Memory::make(2 * static_cast<std::size_t>(properties.l2CacheSize));
  if (!scrub) {
    return scrub.failure();
  }
  device->scrub_ = std::move(*scrub);
  cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize,
                     0);  // no lines of the L2 cache are set aside, where that can be said
  cudaGetLastError();
  cudaMemset(device->scrub_.data(), 0, device->scrub_.bytes());
  return device;
}

Device::~Device() {
  if (stream_ != nullptr) {
    cudaStreamDestroy(stream_);
  }
}

std::size_t Device::free_bytes() const {
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

Status Device::attach() const {
  if (Status status = sandbox::use_device(0); !status) {
    return status;
  }
  const cudaError_t error = cudaSetDevice(0);
  return error == cudaSuccess ? ok() : Status(cuda_failure("the GPU", error));
}

bool Device::settle(double timeout_s) {
  const auto begin = Steady::now();
  while (true) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaSuccess) {
      return true;
    }
    if (state != cudaErrorNotReady) {
      lost_ = true;
      return false;
    }
    const double waited = std::chrono::duration<double>(Steady::now() - begin).count();
    if (waited > timeout_s) {
      return false;
    }
    if (waited > 0.001) {  // short waits are worth a core
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

double Device::bandwidth() {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  if (bandwidth_ > 0) {
    return bandwidth_;
  }
  Result<Memory> from = Memory::make(kBytes);
  Result<Memory> to = Memory::make(kBytes);
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  if (!from || !to || cudaEventCreate(&begin) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess) {
    return 0;
  }
  float best = 0;
  for (int i = 0; i < 5; i++) {
    cudaEventRecord(begin, stream_);
    cudaMemcpyAsync(to->data(), from->data(), kBytes, cudaMemcpyDeviceToDevice, stream_);
    cudaEventRecord(end, stream_);
    float ms = 0;
    if (!settle(5) || cudaEventElapsedTime(&ms, begin, end) != cudaSuccess) {
      break;
    }
    best = best == 0 ? ms : std::min(best, ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  bandwidth_ = best > 0 ? 2 * static_cast<double>(kBytes) / (best * 1e-3) : 0;
  return bandwidth_;
}

Json Device::state() const {
  return nvml_state(bus_);
}

Json Device::describe() const {
  return {{"name", name_},
          {"architecture", architecture_},
          {"multiprocessors", multiprocessors_},
          {"bytes", total_bytes_},
          {"cuda_driver", driver_version_}};
}

}  // namespace khost::judge::gpu
