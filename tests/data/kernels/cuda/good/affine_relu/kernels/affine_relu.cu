#include "khost.h"

__global__ void affine_relu_kernel(const float4* x, const float4* weight, const float4* bias, float4* out, int64_t n4,
                                   int cols4) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n4) {
    const int c = static_cast<int>(i % cols4);
    const float4 a = x[i], w = weight[c], b = bias[c];
    out[i] = {fmaxf(fmaf(a.x, w.x, b.x), 0), fmaxf(fmaf(a.y, w.y, b.y), 0), fmaxf(fmaf(a.z, w.z, b.z), 0),
              fmaxf(fmaf(a.w, w.w, b.w), 0)};
  }
}

extern "C" int affine_relu(const float* x, const float* weight, const float* bias, float* out, int64_t n, int64_t cols,
                           khost::stream* stream) {
  const int64_t n4 = n / 4;
  affine_relu_kernel<<<static_cast<unsigned>((n4 + 255) / 256), 256, 0, khost::cuda(stream)>>>(
      reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(weight),
      reinterpret_cast<const float4*>(bias), reinterpret_cast<float4*>(out), n4, static_cast<int>(cols / 4));
  return cudaGetLastError();
}
KHOST_EXPORT(affine_relu)
