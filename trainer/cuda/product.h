// Matrix products of a fixed small shape, out = x weight^T, by cuBLAS with the algorithm that is quickest on this card:
// for the few rows of a decode step its own guess is often not.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace khost::trainer::cuda {

class Product {
 public:
  enum class Result { bf16, fp32, added };  // added: to the bf16 that is there
  // x bf16 [rows, in], weights bf16 [out, in].
  Product(int64_t rows, int64_t in, int64_t out, Result result);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  // Times what cuBLAS proposes over all of `weights` in turn, so that they come from memory as they will. Waits.
  // What stands in `result` is lost.
  void tune(const std::vector<const void*>& weights, const void* x, void* result, cudaStream_t stream);
  void run(const void* weight, const void* x, void* result, cudaStream_t stream) const;

 private:
  struct Shape;
  std::unique_ptr<Shape> shape_;
};

}  // namespace khost::trainer::cuda
