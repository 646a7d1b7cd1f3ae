#include "khost.h"

__global__ void row_energy_kernel(const float4* x, float* out, int cols4) {
  const float4* row = x + blockIdx.x * int64_t{cols4};
  float sum = 0;
  for (int i = threadIdx.x; i < cols4; i += blockDim.x) {
    const float4 v = row[i];
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_down_sync(~0u, sum, step);
  }
  __shared__ float part[32];
  if (threadIdx.x % 32 == 0) {
    part[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (int i = 0; i < static_cast<int>(blockDim.x) / 32; i++) {
      total += part[i];
    }
    out[blockIdx.x] = total / static_cast<float>(4 * cols4);
  }
}

extern "C" int row_energy(const float* x, float* out, int64_t rows, int64_t cols, khost::stream* stream) {
  row_energy_kernel<<<static_cast<unsigned>(rows), 256, 0, khost::cuda(stream)>>>(reinterpret_cast<const float4*>(x), out,
                                                                               static_cast<int>(cols / 4));
  return cudaGetLastError();
}
KHOST_EXPORT(row_energy)
