// Enough of CUDA to run small kernels on a CPU: a block is as many threads as CUDA would give it, blocks
// follow each other. All threads of a block must reach every __syncthreads and every shuffle.
#pragma once

#include <barrier>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "khost.h"

#define __global__
#define __device__
#define __shared__ static  // one block runs at a time

struct EmulatedIndex {
  unsigned x;
};
inline thread_local EmulatedIndex threadIdx, blockIdx, blockDim;

inline std::barrier<>* emulated_barrier = nullptr;
inline float emulated_lanes[1024];

inline void __syncthreads() {
  emulated_barrier->arrive_and_wait();
}

inline float __shfl_xor_sync(unsigned, float value, int mask) {
  emulated_lanes[threadIdx.x] = value;
  __syncthreads();
  const float other = emulated_lanes[threadIdx.x ^ mask];
  __syncthreads();
  return other;
}

struct float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

inline int cudaGetLastError() {
  return 0;
}

template <class Kernel>
void emulated_launch(int64_t blocks, int threads, Kernel kernel) {
  for (int64_t block = 0; block < blocks; block++) {
    std::barrier<> barrier(threads);
    emulated_barrier = &barrier;
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; thread++) {
      all.emplace_back([&, thread] {
        threadIdx.x = thread;
        blockIdx.x = block;
        blockDim.x = threads;
        kernel();
      });
    }
    for (std::thread& thread : all) {
      thread.join();
    }
  }
}
