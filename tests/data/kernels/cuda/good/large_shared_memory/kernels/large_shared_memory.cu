#include "khost.h"

__global__ void flip(const float* x, float* out, int64_t cols) {
  extern __shared__ float row[];
  for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    row[c] = x[blockIdx.x * cols + c];
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    out[blockIdx.x * cols + c] = row[cols - 1 - c];
  }
}

// More shared memory than a launch gets unasked; the permission is asked for in each call.
extern "C" int large_shared_memory(const float* x, float* out, int64_t rows, int64_t cols, khost::stream* stream) {
  cudaFuncSetAttribute(flip, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  flip<<<rows, 512, cols * sizeof(float), khost::cuda(stream)>>>(x, out, cols);
  return cudaGetLastError();
}
KHOST_EXPORT(large_shared_memory)
