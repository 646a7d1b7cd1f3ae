// The module of a CUDA-Agent workspace: what the files in kernels/ registered.
#include "binding_registry.h"

PYBIND11_MODULE(cuda_extension, m) {
  BindingRegistry::getInstance().applyBindings(m);
}
