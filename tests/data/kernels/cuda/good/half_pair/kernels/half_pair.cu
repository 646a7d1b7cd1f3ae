// Half of every element in half precision, and the mean of each row in single precision. One block a row.
#include <cuda_fp16.h>

#include "khost.h"

__global__ void half_pair_kernel(const __half* x, __half* scaled, float* rows, int cols) {
  __shared__ float sums[256];
  const int64_t first = blockIdx.x * int64_t{cols};
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float value = __half2float(x[first + i]);
    scaled[first + i] = __float2half(value * 0.5f);
    sum += value;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) {
      sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    rows[blockIdx.x] = sums[0] / cols;
  }
}

extern "C" int half_pair(const khost::half* x, khost::half* scaled, float* rows, int64_t count, int64_t cols,
                         khost::stream* stream) {
  half_pair_kernel<<<static_cast<unsigned>(count), 256, 0, khost::cuda(stream)>>>(x, scaled, rows,
                                                                                 static_cast<int>(cols));
  return cudaGetLastError();
}
KHOST_EXPORT(half_pair)
