#include "trainer/cuda/product.h"

#include <cuda_runtime_api.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace khost::trainer::cuda {
namespace {

constexpr size_t kWorkspace = 32 << 20;  // bytes
constexpr int kProposals = 16;
constexpr int kRounds = 3;  // of which the quickest counts

void must(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(what) + ": cuBLAS says " + std::to_string(static_cast<int>(status)));
  }
}

// One handle and one workspace for the program: products run one after the other on the decoder's stream.
struct Library {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  Library() {
    must(cublasLtCreate(&handle), "cublasLtCreate");
    if (cudaMalloc(&workspace, kWorkspace) != cudaSuccess) {
      throw std::runtime_error("no memory for the workspace of cuBLAS");
    }
  }
};

Library& library() {
  static Library made;
  return made;
}

}  // namespace

struct Product::Shape {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  bool chosen = false;
  bool adds = false;

  cublasStatus_t run(const cublasLtMatmulAlgo_t* with, const void* w, const void* from, void* to,
                     cudaStream_t stream) const {
    const float one = 1;
    const float keep = adds ? 1 : 0;
    return cublasLtMatmul(library().handle, operation, &one, w, weight, from, x, &keep, to, result, to, result, with,
                          library().workspace, kWorkspace, stream);
  }
};

// Row-major matrices are cuBLAS's with both sides swapped: result^T [out, rows] = weight [out, in] x^T [in, rows].
Product::Product(int64_t rows, int64_t in, int64_t out, Result result) : shape_(std::make_unique<Shape>()) {
  shape_->adds = result == Result::added;
  must(cublasLtMatmulDescCreate(&shape_->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  must(cublasLtMatmulDescSetAttribute(shape_->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
       "cublasLtMatmulDescSetAttribute");
  must(cublasLtMatrixLayoutCreate(&shape_->weight, CUDA_R_16BF, static_cast<uint64_t>(in), static_cast<uint64_t>(out),
                                  in),
       "cublasLtMatrixLayoutCreate");
  must(cublasLtMatrixLayoutCreate(&shape_->x, CUDA_R_16BF, static_cast<uint64_t>(in), static_cast<uint64_t>(rows), in),
       "cublasLtMatrixLayoutCreate");
  must(cublasLtMatrixLayoutCreate(&shape_->result, result == Result::fp32 ? CUDA_R_32F : CUDA_R_16BF,
                                  static_cast<uint64_t>(out), static_cast<uint64_t>(rows), out),
       "cublasLtMatrixLayoutCreate");
}

Product::~Product() {
  cublasLtMatrixLayoutDestroy(shape_->weight);
  cublasLtMatrixLayoutDestroy(shape_->x);
  cublasLtMatrixLayoutDestroy(shape_->result);
  cublasLtMatmulDescDestroy(shape_->operation);
}

void Product::tune(const std::vector<const void*>& weights, const void* x, void* result, cudaStream_t stream) {
  cublasLtMatmulPreference_t preference = nullptr;
  must(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const size_t workspace = kWorkspace;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                       sizeof workspace);
  cublasLtMatmulHeuristicResult_t proposals[kProposals];
  int count = 0;
  const cublasStatus_t asked =
      cublasLtMatmulAlgoGetHeuristic(library().handle, shape_->operation, shape_->weight, shape_->x, shape_->result,
                                     shape_->result, preference, kProposals, proposals, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  must(asked, "cublasLtMatmulAlgoGetHeuristic");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulAlgo_t* tried = &proposals[i].algo;
    if (shape_->run(tried, weights[0], x, result, stream) != CUBLAS_STATUS_SUCCESS) {
      continue;
    }
    for (int round = 0; round < kRounds; ++round) {
      cudaEventRecord(begin, stream);
      for (const void* weight : weights) {
        shape_->run(tried, weight, x, result, stream);
      }
      cudaEventRecord(end, stream);
      float took = 0;
      if (cudaEventSynchronize(end) == cudaSuccess && cudaEventElapsedTime(&took, begin, end) == cudaSuccess &&
          took < least) {
        least = took;
        shape_->algorithm = proposals[i].algo;
        shape_->chosen = true;
      }
    }
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (!shape_->chosen) {
    throw std::runtime_error("cuBLAS has no algorithm for a product");
  }
}

void Product::run(const void* weight, const void* x, void* result, cudaStream_t stream) const {
  must(shape_->run(&shape_->algorithm, weight, x, result, stream), "cublasLtMatmul");
}

}  // namespace khost::trainer::cuda
