// Device memory for a candidate in Python, out of one range that the judge owns: what forward returns then lies where
// the judge can read, without a copy. The library is loaded before torch and for everybody (RTLD_GLOBAL), so these two
// names stand before the CUDA runtime's: torch's caching allocator gets its segments here, those of captured graphs
// too, and so does an extension that allocates by itself. What does not fit comes from the runtime.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include "sandbox/subject/cuda_driver.h"

#define KHOST_VISIBLE extern "C" __attribute__((visibility("default")))

namespace {

constexpr std::size_t kStep = 512;  // what cudaMalloc's results are aligned to

class Arena {
 public:
  void open(std::uintptr_t base, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    base_ = base;
    bytes_ = bytes;
    gaps_ = {{0, bytes}};
  }

  bool holds(std::uintptr_t address) const { return address - base_ < bytes_; }

  // 0 when nothing is left.
  std::uintptr_t take(std::size_t bytes) {
    const std::size_t need = (std::max<std::size_t>(bytes, 1) + kStep - 1) / kStep * kStep;
    const std::scoped_lock lock(mutex_);
    const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& one) { return one.second >= need; });
    if (gap == gaps_.end()) {
      return 0;
    }
    const auto [offset, room] = *gap;
    gaps_.erase(gap);
    if (room > need) {
      gaps_[offset + need] = room - need;
    }
    taken_[offset] = need;
    return base_ + offset;
  }

  bool give(std::uintptr_t address) {
    const std::scoped_lock lock(mutex_);
    const auto found = taken_.find(address - base_);
    if (found == taken_.end()) {
      return false;
    }
    auto gap = gaps_.emplace(found->first, found->second).first;
    taken_.erase(found);
    if (const auto next = std::next(gap); next != gaps_.end() && gap->first + gap->second == next->first) {
      gap->second += next->second;
      gaps_.erase(next);
    }
    if (gap != gaps_.begin()) {
      const auto before = std::prev(gap);
      if (before->first + before->second == gap->first) {
        before->second += gap->second;
        gaps_.erase(gap);
      }
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::uintptr_t base_ = 0;
  std::size_t bytes_ = 0;
  std::map<std::size_t, std::size_t> gaps_, taken_;  // offset -> bytes
};

Arena& arena() {
  static Arena instance;
  return instance;
}

// The runtime's own function; its library is loaded by whoever calls.
template <class Function>
Function* runtime(const char* name) {
  void* library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    library = dlopen("libcudart.so.12", RTLD_NOW | RTLD_NOLOAD);
  }
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

}  // namespace

KHOST_VISIBLE cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (const std::uintptr_t address = bytes > 0 ? arena().take(bytes) : 0; address != 0) {
    *pointer = reinterpret_cast<void*>(address);
    return cudaSuccess;
  }
  static auto* const real = runtime<cudaError_t(void**, std::size_t)>("cudaMalloc");
  return real != nullptr ? real(pointer, bytes) : cudaErrorInitializationError;
}

// Waits for the device, as the runtime's does: what is given back may be in use.
KHOST_VISIBLE cudaError_t cudaFree(void* pointer) {
  if (pointer != nullptr && arena().holds(reinterpret_cast<std::uintptr_t>(pointer))) {
    static auto* const wait = runtime<cudaError_t()>("cudaDeviceSynchronize");
    const cudaError_t error = wait != nullptr ? wait() : cudaErrorInitializationError;
    return arena().give(reinterpret_cast<std::uintptr_t>(pointer)) ? error : cudaErrorInvalidValue;
  }
  static auto* const real = runtime<cudaError_t(void*)>("cudaFree");
  return real != nullptr ? real(pointer) : cudaErrorInitializationError;
}

// From now on memory comes out of what is behind the descriptor. Its address on the device, or 0.
KHOST_VISIBLE std::uint64_t khost_arena_open(int fd, std::uint64_t bytes) {
  khost::Result<khost::sandbox::SharedMemory> memory = khost::sandbox::map_memory(bytes, fd);
  if (!memory) {
    return 0;
  }
  arena().open(memory->base, bytes);
  return memory->base;
}
