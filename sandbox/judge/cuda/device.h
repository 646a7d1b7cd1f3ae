// The GPU as the judge holds it: its context, one stream, memory of its own and memory that it lends. One GPU for each
// judge, the first that it sees. Methods may be called from any thread that holds the device lock; a thread
// calls attach() first. Sizes are bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/jail/fd.h"
#include "sandbox/subject/cuda_driver.h"

namespace khost::judge::gpu {

// How often the device was reset, which ends its context. What was made before is not given back afterwards:
// in the next context its address may be somebody else's.
unsigned device_resets();
void reset_device();

// Device memory that nobody else can reach. Move-only.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), resets_(other.resets_) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(resets_, other.resets_);
    return *this;
  }
  ~Memory();
  static Result<Memory> make(std::size_t bytes);  // limit when the device is full
  std::byte* data() const { return base_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  unsigned resets_ = device_resets();
};

// Device memory lent to one subject: the judge's mapping and a descriptor. The driver clears new memory. Move-only.
class Lent {
 public:
  Lent() = default;
  Lent(Lent&& other) noexcept
      : memory_(std::exchange(other.memory_, {})), fd_(std::move(other.fd_)), resets_(other.resets_) {}
  Lent& operator=(Lent&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(fd_, other.fd_);
    std::swap(resets_, other.resets_);
    return *this;
  }
  ~Lent();
  static Result<Lent> make(std::size_t bytes);  // rounded up to the granularity; 0 stays 0
  std::byte* data() const { return reinterpret_cast<std::byte*>(memory_.base); }
  std::size_t bytes() const { return memory_.bytes; }
  int fd() const { return fd_.get(); }
  void close_file() { fd_.reset(); }  // the memory stays; nobody can be lent it any more

 private:
  sandbox::SharedMemory memory_;
  sandbox::Fd fd_;
  unsigned resets_ = device_resets();
};

// What a jail needs to see of the driver and the toolkit.
struct Access {
  std::vector<std::string> nodes;     // /dev/nvidia0, …
  std::vector<std::string> prefixes;  // folders outside /usr
  std::string library_path;           // LD_LIBRARY_PATH
  std::string driver_folder;          // of libcuda
};

class Device {
 public:
  static Result<std::unique_ptr<Device>> open();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Status attach() const;
  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  const std::string& name() const { return name_; }
  const std::string& architecture() const { return architecture_; }  // sm_90
  std::size_t bytes() const { return total_bytes_; }
  std::size_t free_bytes() const;  // now; 0 when the driver does not tell
  const Access& access() const { return access_; }
  // Larger than the L2 cache, to push everything else out of it.
  const Memory& scrub() const { return scrub_; }
  // Waits until the stream is idle, sleeping between looks; false after the time. A failure of the device is `lost`.
  bool settle(double timeout_s);
  bool lost() const { return lost_; }
  // Bytes a second that a large copy moves, read and written together; measured once.
  double bandwidth();
  // Clocks in MHz, temperature and what holds the clocks down, as far as NVML tells; empty without NVML.
  Json state() const;
  Json describe() const;  // name, architecture, multiprocessors, bytes, CUDA version of the driver

 private:
  Device() = default;
  std::string name_, architecture_, bus_;
  int multiprocessors_ = 0;
  int driver_version_ = 0;
  std::size_t total_bytes_ = 0;
  cudaStream_t stream_ = nullptr;
  Memory scrub_;
  Access access_;
  std::atomic<bool> lost_ = false;
  double bandwidth_ = 0;
};

// The CUDA error of the last call as a Failure: limit when memory ran out, else device.
Failure cuda_failure(const std::string& what, cudaError_t error);

}  // namespace khost::judge::gpu
