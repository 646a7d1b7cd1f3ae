#include "khost.h"
#include <dlfcn.h>

extern "C" int loads_a_library(const float* x, float* out, int64_t n) {
  out[n - 1] = x[n - 1];
  return dlopen("libtorch_cpu.so", RTLD_NOW) == nullptr ? 1 : 0;
}
KHOST_EXPORT(loads_a_library)
