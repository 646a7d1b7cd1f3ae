// The turn kernel under test: a barrier that passes only while every block is resident, then reveal or check.
#pragma once

#include "common.h"

namespace probe {

struct TurnState {
  unsigned arrived, left, busy, bad;
};

struct TurnArguments {
  TurnState* state;
  unsigned long long limit_ns;
  // open
  const uint4* hidden;
  uint4* visible;
  size_t reveal16;
  const uint4* scrub;
  size_t scrub16;
  uint4* sink;
  volatile unsigned* go;
  unsigned sequence;
  // close: sampled places must hold in * 2 + sequence
  const float *in, *out;
  size_t count;
  unsigned samples, seed;
  bool leave_together;
};

// Two blocks of 1,024 threads fill an SM, so all of 2 * SMs blocks resident means nobody else has a warp there.
__global__ void __launch_bounds__(1024, 2) turn(TurnArguments a) {
  const unsigned all = gridDim.x;
  const size_t first = blockIdx.x * size_t(blockDim.x) + threadIdx.x, stride = size_t(all) * blockDim.x;
  __shared__ int passed;
  if (threadIdx.x == 0) {
    const unsigned long long start = device_ns();
    passed = 1;
    atomicAdd(&a.state->arrived, 1u);
    while (*(volatile unsigned*)&a.state->arrived < all)
      if (device_ns() - start > a.limit_ns) {
        *(volatile unsigned*)&a.state->busy = 1;
        break;
      }
    if (*(volatile unsigned*)&a.state->busy)
      passed = 0;
  }
  __syncthreads();
  if (!passed)
    return;
  for (size_t i = first; i < a.samples; i += stride) {
    unsigned long long x = (i + 1) * 6364136223846793005ull + a.seed;
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    const size_t where = x % a.count;
    if (__ldcv(a.out + where) != __ldcv(a.in + where) * 2.f + float(a.sequence))
      atomicAdd(&a.state->bad, 1u);
  }
  for (size_t i = first; i < a.reveal16; i += stride)
    __stcs(a.visible + i, __ldcs(a.hidden + i));
  uint4 sum{};
  for (size_t i = first; i < a.scrub16; i += stride) {
    const uint4 v = __ldcg(a.scrub + i);
    sum.x ^= v.x;
    sum.y ^= v.y;
  }
  if (sum.x == 0x12345678u && sum.y == 0x9abcdef0u)
    *a.sink = sum;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(&a.state->left, 1u) == all - 1 && a.go)
    *a.go = a.sequence;
  if (threadIdx.x == 0 && a.leave_together) {  // no block makes room before all are done
    const unsigned long long start = device_ns();
    while (*(volatile unsigned*)&a.state->left < all && device_ns() - start < a.limit_ns) {
    }
  }
  __syncthreads();
}

// Stays on the device until told to leave; never longer than its limit.
__global__ void resident(volatile unsigned* stop, volatile unsigned* here, unsigned long long limit_ns) {
  const unsigned long long start = device_ns();
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    *here = 1;
    __threadfence_system();
  }
  while (!*stop && device_ns() - start < limit_ns)
    __nanosleep(200);
}

}  // namespace probe
