#include <cublas_v2.h>

#include "khost.h"

__global__ void bias_relu_kernel(const float* bias, float* out, int64_t n, int cols) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) {
    out[i] = fmaxf(out[i] + bias[i % cols], 0.0f);
  }
}

extern "C" int linear_relu(const float* x, const float* linear_weight, const float* linear_bias, float* out,
                           int64_t rows, int64_t cols, khost::handles* handles, khost::stream* stream) {
  const float one = 1, zero = 0;
  const int m = static_cast<int>(rows), n = static_cast<int>(cols), k = static_cast<int>(cols);
  const cublasStatus_t status =
      cublasSgemm(static_cast<cublasHandle_t>(handles->cublas), CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, linear_weight,
                  k, x, k, &zero, out, n);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return 1000 + status;
  }
  const int64_t count = rows * cols;
  bias_relu_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, khost::cuda(stream)>>>(linear_bias, out, count,
                                                                                             n);
  return cudaGetLastError();
}
KHOST_EXPORT(linear_relu)
