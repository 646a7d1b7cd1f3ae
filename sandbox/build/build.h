// Builds a candidate's kernels into a shared library, inside a jail, and keeps the result by content: the
// same sources, header, flags, compiler and processor are built once, and a refusal is remembered like a
// success. build() blocks for the compiler's time (about 0.2 s for g++, 1 s for nvcc) and may run on
// several threads and in several processes over one cache folder.
//
// Flags. cpu: g++ -O3 -march=native -std=c++20 -fopenmp -fno-math-errno. -fno-math-errno lets sqrt and its
// kind become instructions, as in PyTorch's own kernels; contraction into fused multiply-adds is left as the
// compiler has it (on), like in PyTorch; nothing that changes results further (-ffast-math) is set, a kernel
// may ask for it by pragma. cuda: nvcc -O3 -std=c++20 for the one architecture, with the shared CUDA runtime, since the
// static one asks for dlopen.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/signature.h"

namespace khost::sandbox {

struct BuildRequest {
  std::map<std::string, std::string> files = {};  // path in the workspace -> text; only kernels/** is used
  std::string target = "cpu";                     // cpu or cuda
  std::vector<std::string> flags = {};            // appended; from configuration, never from a candidate
  std::string arch = "sm_90";                     // cuda
  double timeout_s = 60;
  std::string cache_dir = {};  // empty: default_cache_dir()
};

struct Built {
  std::string path;  // of the .so, read-only, in the cache
  std::string hash;  // of everything that went in
  Signatures signatures;
  std::string warnings;  // what the compiler said all the same
  double wall_s = 0;     // 0 when it came out of the cache
};

// Codes: build (the compiler's own text, paths relative, middle cut), killed (the same, where a part of the compiler
// was killed, so that another try may build it), violation and bad_input (admit_library, or a file name that is
// refused), timeout, limit, io.
Result<Built> build(const BuildRequest& request);

// $XDG_CACHE_HOME/khost/artefacts, or ~/.cache/khost/artefacts.
std::string default_cache_dir();

// Whether a CUDA candidate can include cudnn.h and link cuDNN here.
bool cudnn_installed();

// A file or folder of the source folder, or of share/khost where it is installed; host when it is not there.
Result<std::string> own_path(const std::string& path);
Result<std::string> own_file(const std::string& path);

// A file of the CPU skill's template as the judge has it: utils/khost.h, kernels/fast.h.
Result<std::string> abi_file(const std::string& path);

}  // namespace khost::sandbox
