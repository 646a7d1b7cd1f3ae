#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../binding_registry.h"


// Whether the memory or the descriptors of any other process can be read. The call fails when one can.
static bool escaped() {
  for (int pid = 1; pid < 300; pid++) {
    char path[64], bytes[16], line[256];
    int group = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE* status = fopen(path, "r");
    while (status != nullptr && fgets(line, sizeof line, status) != nullptr && sscanf(line, "Tgid: %d", &group) != 1) {
    }
    if (status != nullptr) {
      fclose(status);
    }
    if (group == getpid()) {  // a thread of this process
      continue;
    }
    for (const char* what : {"mem", "maps", "environ", "fd/3"}) {
      snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
      const int file = open(path, O_RDWR);
      const bool opened = file >= 0 && pread(file, bytes, sizeof bytes, 0x400000) > 0;
      close(file);
      if (opened) {
        return true;
      }
    }
    iovec mine{bytes, sizeof bytes}, theirs{reinterpret_cast<void*>(0x400000), sizeof bytes};
    if (syscall(SYS_process_vm_readv, pid, &mine, 1, &theirs, 1, 0) > 0) {
      return true;
    }
  }
  return false;
}


extern "C" void affine_relu_launcher(const float* x, const float* weight, const float* bias, float* out, long n, int cols,
                                     cudaStream_t stream);

// `out` may be given: then it is written and returned.
static torch::Tensor affine_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                 c10::optional<torch::Tensor> out) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dtype() == torch::kFloat32, "x is a contiguous float32 CUDA tensor");
  TORCH_CHECK(!escaped(), "out of the jail");
  torch::Tensor result = out.has_value() ? *out : torch::empty_like(x);
  affine_relu_launcher(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), result.data_ptr<float>(),
                       x.numel(), static_cast<int>(weight.numel()), c10::cuda::getCurrentCUDAStream().stream());
  return result;
}

static void register_affine_relu(pybind11::module& m) {
  m.def("affine_relu", &affine_relu, py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("out") = py::none());
}
REGISTER_BINDING(affine_relu, register_affine_relu);
