// Where the torch of an interpreter has its headers and libraries, and those headers precompiled. Any thread.
#pragma once

#include <string>
#include <vector>

#include "host/base/result.h"

namespace khost::sandbox {

struct TorchPlace {
  std::string torch;           // folder of the package
  std::string python_include;  // of Python.h
  std::string version;
  std::vector<std::string> prefixes;  // what a jail must see of it
};

// Asked once per process and interpreter, in a jail. host when there is no torch, no Python.h or no jail.
Result<TorchPlace> torch_place(const std::string& python);

std::vector<std::string> torch_include_flags(const TorchPlace& place);

// Flags of sources in C++ that include from these folders.
std::vector<std::string> torch_host_flags(const std::vector<std::string>& include_flags);

// Whether an identifier occurs anywhere in torch's headers; the first question reads them all (two seconds).
bool in_torch_headers(const TorchPlace& place, const std::string& identifier);

// A folder with torch.h and torch.h.gch for torch_host_flags(), made in a jail when it is not there (half a minute).
// Empty when it cannot be made.
std::string precompiled_torch(const TorchPlace& place, const std::string& cache_dir);

}  // namespace khost::sandbox
