#include <cooperative_groups.h>

#include "khost.h"

namespace {

constexpr int kBlocks = 264, kThreads = 256;
__device__ double sums[kBlocks];

__global__ void normalise(const float* x, float* out, int64_t n) {
  __shared__ double part[kThreads];
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x, step = int64_t{gridDim.x} * kThreads;
  double sum = 0;
  for (int64_t i = first; i < n; i += step) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = part[0];
  }
  cooperative_groups::this_grid().sync();
  double all = 0;
  for (int block = 0; block < gridDim.x; block++) {
    all += sums[block];
  }
  const float scale = 1 / sqrt(all);
  for (int64_t i = first; i < n; i += step) {
    out[i] = x[i] * scale;
  }
}

}  // namespace

// All blocks wait for each other in the middle of one launch.
extern "C" int cooperative_grid(const float* x, float* out, int64_t n, khost::stream* stream) {
  void* arguments[] = {&x, &out, &n};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(normalise), dim3(kBlocks), dim3(kThreads), arguments,
                                     0, khost::cuda(stream));
}
KHOST_EXPORT(cooperative_grid)
