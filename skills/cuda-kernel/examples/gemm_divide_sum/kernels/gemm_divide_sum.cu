// sum_j (x W^T)[i, j] = x[i, :] . (sum_j W[j, :]): the product becomes the column sums of W and one dot product a row.
// What remains is reading W once. Division and scale are one factor.
#include "khost.h"

constexpr int kThreads = 256;
constexpr float kFactor = 0.5f * 1.5f;

// Partial column sums: block (c, s) adds the rows s, s + slices, ... of 4 * kThreads columns.
__global__ void __launch_bounds__(kThreads)
    sum_columns(const float4* __restrict__ w, float4* __restrict__ part, int rows, int cols4, int slices) {
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= cols4) {
    return;
  }
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int r = blockIdx.y; r < rows; r += slices) {
    const float4 v = __ldcs(w + r * int64_t{cols4} + c);
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  part[blockIdx.y * int64_t{cols4} + c] = sum;
}

__global__ void __launch_bounds__(kThreads)
    add_slices(const float4* __restrict__ part, float4* __restrict__ total, int cols4, int slices) {
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= cols4) {
    return;
  }
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int s = 0; s < slices; s++) {
    const float4 v = part[s * int64_t{cols4} + c];
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  total[c] = sum;
}

__global__ void __launch_bounds__(kThreads)
    dot_rows(const float4* __restrict__ x, const float4* __restrict__ total, float* __restrict__ out, int cols4) {
  const float4* row = x + blockIdx.x * int64_t{cols4};
  float sum = 0;
  for (int i = threadIdx.x; i < cols4; i += kThreads) {
    const float4 a = row[i], b = total[i];
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  __shared__ float part[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_down_sync(~0u, sum, step);
  }
  if (threadIdx.x % 32 == 0) {
    part[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (int i = 0; i < kThreads / 32; i++) {
      all += part[i];
    }
    out[blockIdx.x] = kFactor * all;
  }
}

extern "C" int gemm_divide_sum(const float* x, const float* weight, float* out, int64_t rows, int64_t cols,
                               khost::workspace scratch, khost::stream* stream) {
  constexpr int kSlices = 64;
  const int cols4 = static_cast<int>(cols / 4);
  const int hidden = static_cast<int>(cols);  // the weight is square
  float4* part = static_cast<float4*>(scratch.data);
  float4* total = part + kSlices * int64_t{cols4};
  if (scratch.bytes < (kSlices + 1) * int64_t{cols4} * sizeof(float4)) {
    return 1;
  }
  const unsigned blocks = static_cast<unsigned>((cols4 + kThreads - 1) / kThreads);
  sum_columns<<<dim3(blocks, kSlices), kThreads, 0, khost::cuda(stream)>>>(reinterpret_cast<const float4*>(weight),
                                                                           part, hidden, cols4, kSlices);
  add_slices<<<blocks, kThreads, 0, khost::cuda(stream)>>>(part, total, cols4, kSlices);
  dot_rows<<<static_cast<unsigned>(rows), kThreads, 0, khost::cuda(stream)>>>(reinterpret_cast<const float4*>(x), total,
                                                                              out, cols4);
  return cudaGetLastError();
}
KHOST_EXPORT(gemm_divide_sum)
