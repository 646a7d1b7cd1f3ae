#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>

#include "../binding_registry.h"

extern "C" int row_energy_launcher(const float* x, float** out, int rows, int cols, cudaStream_t stream);

static torch::Tensor row_energy(torch::Tensor x) {
  float* out = nullptr;
  const int error = row_energy_launcher(x.data_ptr<float>(), &out, static_cast<int>(x.size(0)), static_cast<int>(x.size(1)),
                                        c10::cuda::getCurrentCUDAStream().stream());
  TORCH_CHECK(error == 0, "row_energy: CUDA error ", error);
  return torch::from_blob(out, {x.size(0)}, x.options());
}

static void register_row_energy(pybind11::module& m) { m.def("row_energy", &row_energy); }
REGISTER_BINDING(row_energy, register_row_energy);
