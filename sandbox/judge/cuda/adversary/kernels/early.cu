// The subjects that calibrate the clock. One launches an empty kernel: without any the device would not even turn to
// the subject, which costs most of a window. One reads and writes so much, and notes when its blocks began and ended.
// The third is the adversary: work that keeps the whole device for a given time, writes its output at the very end, and
// acknowledges the call by itself, earlier. It finds the word as any candidate could: in /proc/self/maps.
#include <cstdio>
#include <cstring>

#include "khost.h"

namespace {

constexpr int kThreads = 1024;
constexpr std::size_t kAckOffset = 3072 + 128;  // DeviceWords::ack in sandbox/subject/cuda_turn.h

__device__ unsigned long long device_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__global__ void __launch_bounds__(kThreads)
    work(float* out, int64_t n, long long nanoseconds, long long early_ns, volatile unsigned* ack, unsigned seq) {
  const unsigned long long start = device_ns();
  if (ack != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    while (static_cast<long long>(device_ns() - start) < nanoseconds - early_ns) {
    }
    *ack = seq;
    __threadfence_system();
  }
  while (static_cast<long long>(device_ns() - start) < nanoseconds) {
  }
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads) {
    out[i] = 1.0f;
  }
}

// The control page: the first shared mapping of 4,096 bytes that is called control.
unsigned* control_page() {
  static unsigned* page = [] {
    unsigned* found = nullptr;
    if (FILE* maps = std::fopen("/proc/self/maps", "r")) {
      char line[512];
      while (found == nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long address = 0;
        if (std::strstr(line, "memfd:control") != nullptr && std::sscanf(line, "%lx-", &address) == 1) {
          found = reinterpret_cast<unsigned*>(address);
        }
      }
      std::fclose(maps);
    }
    return found;
  }();
  return page;
}

__global__ void nothing() {}

// Begin and end of each block, in the device's nanoseconds; the end is when its writes are there for the whole device.
__global__ void __launch_bounds__(kThreads)
    stream(const float4* in, int64_t read4, float4* out, int64_t written4, longlong2* stamps) {
  const unsigned long long start = device_ns();
  float4 sum{};
  const int64_t most = read4 > written4 ? read4 : written4;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < most; i += int64_t{gridDim.x} * kThreads) {
    if (i < read4) {
      const float4 word = in[i];
      sum = {sum.x + word.x, sum.y + word.y, sum.z + word.z, sum.w + word.w};
    }
    if (i < written4) {
      out[i] = sum;
    }
  }
  if (read4 > written4 && sum.x + sum.y + sum.z + sum.w == 1e38f) {  // never, but the compiler does not know
    out[0] = sum;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    stamps[blockIdx.x] = {static_cast<long long>(start), static_cast<long long>(device_ns())};
  }
}

}  // namespace

extern "C" int launch_nothing(khost::stream* stream) {
  nothing<<<1, 1, 0, khost::cuda(stream)>>>();
  return cudaGetLastError();
}
KHOST_EXPORT(launch_nothing)

// In `memory`: two stamps a block, then what is written and what is read, in units of four floats.
extern "C" int stream_and_stamp(float* memory, int64_t written4, int64_t read4, int64_t blocks, khost::stream* stream) {
  auto* all = reinterpret_cast<float4*>(memory);
  ::stream<<<static_cast<unsigned>(blocks), kThreads, 0, khost::cuda(stream)>>>(
      all + blocks + written4, read4, all + blocks, written4, reinterpret_cast<longlong2*>(all));
  return cudaGetLastError();
}
KHOST_EXPORT(stream_and_stamp)

// early_ns below 0: honest, the caller acknowledges.
extern "C" int work_and_acknowledge(float* out, int64_t n, int64_t nanoseconds, int64_t early_ns,
                                    khost::stream* stream) {
  unsigned* page = early_ns < 0 ? nullptr : control_page();
  volatile unsigned* ack = nullptr;
  unsigned seq = 0;
  if (page != nullptr) {
    void* on_device = nullptr;
    if (const cudaError_t error = cudaHostGetDevicePointer(&on_device, page, 0); error != cudaSuccess) {
      return error;
    }
    ack = reinterpret_cast<volatile unsigned*>(static_cast<char*>(on_device) + kAckOffset);
    seq = *page;  // ControlPage::go
  }
  int multiprocessors = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  work<<<multiprocessors, kThreads, 0, khost::cuda(stream)>>>(out, n, nanoseconds, early_ns, ack, seq);
  return cudaGetLastError();
}
KHOST_EXPORT(work_and_acknowledge)
