// Builds the extension of a candidate in Python (torch headers, pybind11) inside a jail, and keeps it by content. What
// costs is reading torch's headers, ten seconds a file. So the sources are compiled against headers of ours first
// (extension/light), which have what most extensions use of torch and of pybind11, by way of the interpreter.
// What needs more is compiled with torch's own: sources in C++ take those precompiled. Objects of sources in C++ are
// kept one by one, so that a change in a .cu compiles that file alone. Host code is compiled without optimisation (an
// order of magnitude less work for bindings, and a call's time is the device's); device code with -O3.
// build_extension() blocks and may run on several threads and in several processes over one cache folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sandbox/build/build.h"

namespace khost::sandbox {

struct ExtensionRequest {
  std::string name;                            // of the Python module; an identifier
  std::map<std::string, std::string> sources;  // path -> text: .cpp, .cc and .cu are compiled, headers lie beside
  // As a candidate asks; what is not on the list of harmless ones (optimisation, language, macros, cuBLAS, cuDNN) is
  // left out.
  std::vector<std::string> cflags = {}, cuda_cflags = {}, ldflags = {};
  std::string arch = "sm_90";
  std::string python;  // interpreter with torch
  double timeout_s = 120;
  std::string cache_dir = {};  // empty: default_cache_dir()
};

// Codes as build()'s; violation when the library calls operators of torch that compute.
Result<Built> build_extension(const ExtensionRequest& request);

// The extension of a CUDA-Agent workspace: kernels/** of `files`, with the fixed binding.cpp and binding_registry.h.
Result<ExtensionRequest> workspace_extension(const std::map<std::string, std::string>& files);

// Makes what every build needs (torch's headers precompiled) now. False when it cannot be made: then builds go without.
bool prepare_extensions(const std::string& python, const std::string& cache_dir = {});

}  // namespace khost::sandbox
