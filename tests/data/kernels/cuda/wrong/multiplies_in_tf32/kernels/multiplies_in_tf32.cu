#include <cublas_v2.h>

#include "khost.h"

// The library's product with the short significand of TF32, where the reference has all of float's.
extern "C" int multiplies_in_tf32(const float* x, const float* weight, float* out, int64_t rows, int64_t cols,
                                  khost::handles* handles) {
  const auto blas = static_cast<cublasHandle_t>(handles->cublas);
  const float one = 1.0f, zero = 0.0f;
  const int n = static_cast<int>(cols), m = static_cast<int>(rows);
  return cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, n, &one, weight, CUDA_R_32F, n, x, CUDA_R_32F, n, &zero,
                      out, CUDA_R_32F, n, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT);
}
KHOST_EXPORT(multiplies_in_tf32)
