// diag(A) @ B scales the rows of B: no matrix product is left, only one pass over memory. A thread moves 2 x
// 16 bytes, so two loads are under way at once, and a block stays within a row. Nothing is read twice; yet
// loads and stores that say so (__ldcs, __stcs) took 34.5 us on an H200 where plain ones took 31.5.
#include "khost.h"

constexpr int kThreads = 256;
constexpr int kVectors = 2;

__global__ void __launch_bounds__(kThreads)
    scale_rows(const float* __restrict__ A, const float4* __restrict__ B, float4* __restrict__ out, int cols4) {
  const float a = __ldg(A + blockIdx.y);
  const int64_t row = blockIdx.y * int64_t{cols4};
  const int first = blockIdx.x * kThreads * kVectors + threadIdx.x;
  float4 v[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    const int c = first + i * kThreads;
    if (c < cols4) {
      v[i] = __ldg(B + row + c);
    }
  }
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    const int c = first + i * kThreads;
    if (c < cols4) {
      out[row + c] = make_float4(a * v[i].x, a * v[i].y, a * v[i].z, a * v[i].w);
    }
  }
}

extern "C" int diag_matmul(const float* A, const float* B, float* out, int64_t n, int64_t cols, khost::stream* stream) {
  // cols is that of the first input, which has one dimension: as many rows as it has elements.
  const int64_t rows = cols;
  const int cols4 = static_cast<int>(n / rows / 4);
  const dim3 grid(static_cast<unsigned>((cols4 + kThreads * kVectors - 1) / (kThreads * kVectors)),
                  static_cast<unsigned>(rows));
  scale_rows<<<grid, kThreads, 0, khost::cuda(stream)>>>(A, reinterpret_cast<const float4*>(B),
                                                         reinterpret_cast<float4*>(out), cols4);
  return cudaGetLastError();
}
KHOST_EXPORT(diag_matmul)
