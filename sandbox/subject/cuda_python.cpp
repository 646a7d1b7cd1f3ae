// What a Python subject on a GPU calls through ctypes: the judge's memory, and the device's side of a turn
// (cuda_turn.h). torch owns the context; it must be current in the calling thread.
#include "sandbox/subject/cuda_driver.h"
#include "sandbox/subject/cuda_turn.h"

using namespace khost::sandbox;

#define KHOST_VISIBLE extern "C" __attribute__((visibility("default")))

// Address on the device of the memory behind a descriptor, or 0.
KHOST_VISIBLE std::uint64_t khost_gpu_map(int fd, std::uint64_t bytes) {
  khost::Result<SharedMemory> memory = map_memory(bytes, fd);
  return memory ? memory->base : 0;
}

// Address on the device of the control page, or 0.
KHOST_VISIBLE std::uint64_t khost_gpu_page(void* page) {
  khost::Result<const Driver*> cuda = driver();
  CUdeviceptr base = 0;
  if (!cuda || (*cuda)->host_register(page, kControlBytes, CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS ||
      (*cuda)->host_pointer(&base, page, 0) != CUDA_SUCCESS) {
    return 0;
  }
  return base;
}

// 1: this call is to be queued. 0: it is to be played at once.
KHOST_VISIBLE int khost_gpu_queued(void* page) {
  return __atomic_load_n(&device_words(page)->form, __ATOMIC_ACQUIRE) == static_cast<std::uint32_t>(Form::queued);
}

// The stream waits until call `seq` is open. 0, or the driver's error.
KHOST_VISIBLE int khost_gpu_wait(void* stream, std::uint64_t page, std::uint32_t seq) {
  return (*driver())->stream_wait(static_cast<CUstream>(stream), page + kDeviceWordsOffset + offsetof(DeviceWords, go),
                                  seq, CU_STREAM_WAIT_VALUE_GEQ);
}

// The stream acknowledges call `seq` behind what was launched. 0, or the driver's error.
KHOST_VISIBLE int khost_gpu_ack(void* stream, std::uint64_t page, std::uint32_t seq) {
  return (*driver())->stream_write(static_cast<CUstream>(stream),
                                   page + kDeviceWordsOffset + offsetof(DeviceWords, ack), seq, 0);
}
