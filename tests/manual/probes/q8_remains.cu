// Question 8: does a fresh process find what an earlier one left in device memory or in shared memory?
//   q8_remains plant GB [kill|free]   fills memory of both allocators and every SM's shared memory with a pattern,
//                                     then ends (kill: by SIGKILL; free: frees, and lives on for 4 s)
//   q8_remains scan GB                allocates, counts words of the pattern without writing
#include "common.h"

using namespace probe;

static const unsigned kMark = 0x9d5f31c7u;

__global__ void fill(unsigned* p, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = kMark;
}
__global__ void count(const unsigned* p, size_t n, unsigned long long* found, unsigned long long* nonzero) {
  unsigned long long hits = 0, set = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    hits += p[i] == kMark;
    set += p[i] != 0;
  }
  if (hits)
    atomicAdd(found, hits);
  if (set)
    atomicAdd(nonzero, set);
}
__global__ void shared_memory(bool write, unsigned words, unsigned long long* found) {
  extern __shared__ unsigned s[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
    if (write)
      *(volatile unsigned*)(s + i) = kMark;
    else if (*(volatile unsigned*)(s + i) == kMark)
      atomicAdd(found, 1ull);
  }
}

static unsigned* vmm(size_t bytes) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle;
  CK(cuMemCreate(&handle, bytes, &prop, 0));
  CUdeviceptr p;
  CK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
  CK(cuMemMap(p, bytes, 0, handle, 0));
  CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CK(cuMemSetAccess(p, bytes, &desc, 1));
  return (unsigned*)p;
}

int main(int argc, char** argv) {
  alarm(60);
  const bool plant = argc > 1 && !strcmp(argv[1], "plant");
  const size_t bytes = (argc > 2 ? strtoull(argv[2], nullptr, 10) : 4) << 30;
  CK(cudaFree(0));
  const int sms = attribute(cudaDevAttrMultiProcessorCount), most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  CK(cudaFuncSetAttribute(shared_memory, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  unsigned long long *found, *device_found;
  CK(cudaHostAlloc(&found, 4096, cudaHostAllocMapped));
  memset(found, 0, 4096);
  CK(cudaHostGetDevicePointer((void**)&device_found, found, 0));
  double took[2] = {};
  unsigned* first = nullptr;
  for (int kind = 0; kind < 2; kind++) {
    unsigned* p;
    const double start = now_us();
    if (kind)
      p = vmm(bytes);
    else
      CK(cudaMalloc(&p, bytes));
    if (!kind)
      first = p;
    took[kind] = (now_us() - start) / 1e3;
    if (plant)
      fill<<<sms * 8, 256>>>(p, bytes / 4);
    else
      count<<<sms * 8, 256>>>(p, bytes / 4, device_found + kind * 2, device_found + kind * 2 + 1);
  }
  shared_memory<<<sms, 1024, most>>>(plant, most / 4, device_found + 4);
  CK(cudaDeviceSynchronize());
  if (plant) {
    printf("  planted 2 x %zu GB (%s)\n", bytes >> 30, sharing());
    fflush(stdout);
    if (argc > 3 && !strcmp(argv[3], "kill"))
      raise(SIGKILL);
    if (argc > 3 && !strcmp(argv[3], "free")) {
      CK(cudaFree(first));
      sleep(4);
    }
    return 0;
  }
  printf(
      "Q8 %s | 2 x %zu GB | cudaMalloc: %llu marked, %llu nonzero words, %.1f ms | cuMemCreate: %llu marked, %llu "
      "nonzero, "
      "%.1f ms | shared memory: %llu marked words\n",
      sharing(), bytes >> 30, found[0], found[1], took[0], found[2], found[3], took[1], found[4]);
}
