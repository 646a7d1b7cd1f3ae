#include "sandbox/build/torch_headers.h"

#include <cctype>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "host/base/json.h"
#include "host/base/sha256.h"
#include "sandbox/build/build_cache.h"
#include "sandbox/build/compiler.h"
#include "sandbox/build/made_once.h"
#include "sandbox/jail/jail.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr double kAskTimeout_s = 30;
constexpr double kPrecompileTimeout_s = 240;
constexpr std::size_t kMostHeader = std::size_t{2} << 30;

// What bindings begin with; the last are not in every toolkit.
constexpr const char* kHeaders =
    "#pragma once\n#include <torch/extension.h>\n#include <cuda_runtime.h>\n#include <c10/cuda/CUDAStream.h>\n"
    "#include <c10/cuda/CUDAGuard.h>\n#include <pybind11/stl.h>\n#include <functional>\n#include <vector>\n"
    "#if __has_include(<cusparse.h>) && __has_include(<cusolverDn.h>) && __has_include(<cublas_v2.h>)\n"
    "#include <ATen/cuda/CUDAContext.h>\n#endif\n";

constexpr const char* kQuestion =
    "import importlib.util as u, os, sysconfig\n"
    "print(list(u.find_spec('torch').submodule_search_locations)[0])\n"
    "print(sysconfig.get_paths()['include'])\n";

std::string above(const fs::path& path, int steps) {
  fs::path result = path;
  for (int i = 0; i < steps; i++) {
    result = result.parent_path();
  }
  return result.string();
}

Result<TorchPlace> ask(const std::string& python) {
  std::error_code error;
  TorchPlace place;
  place.prefixes = {above(python, 2), above(fs::weakly_canonical(python, error), 2)};
  JailSpec spec;
  spec.name = "python";
  spec.argv = {python, "-I", "-c", kQuestion};
  spec.readable_prefixes = place.prefixes;
  Result<Output> output = run_in_jail(spec, "", kAskTimeout_s, 20000);
  if (!output) {
    return output.failure();
  }
  const std::size_t line = output->out.find('\n');
  if (output->exit.code != 0 || line == std::string::npos) {
    return Failure{python + " has no torch: " + shortened(output->err), "host"};
  }
  place.torch = output->out.substr(0, line);
  place.python_include = output->out.substr(line + 1, output->out.find('\n', line + 1) - line - 1);
  place.version = read_file(fs::path(place.torch) / "version.py").value_or("");
  if (!fs::exists(place.python_include + "/Python.h", error)) {
    return Failure{"extensions need " + place.python_include + "/Python.h (package python3-dev)", "host"};
  }
  place.prefixes.push_back(place.torch);
  place.prefixes.push_back(place.python_include);
  return place;
}

bool precompile(const TorchPlace& place, const fs::path& folder) {
  const fs::path out = folder / "out";
  std::error_code error;
  fs::create_directory(out, error);
  if (!write_file(folder / "source/torch.h", kHeaders)) {
    return false;
  }
  JailSpec spec;
  spec.name = "headers";
  spec.argv = {compiler_path("cpu")};
  const std::vector<std::string> flags = torch_host_flags(torch_include_flags(place));
  spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
  spec.argv.insert(spec.argv.end(), {"-x", "c++-header", "torch.h", "-o", "/out/torch.h.gch"});
  spec.cwd = "/build";
  spec.binds = {{(folder / "source").string(), "/build", false}, {out.string(), "/out", true}};
  spec.readable_prefixes = place.prefixes;
  spec.limits.cpu_s = kPrecompileTimeout_s;
  spec.limits.memory_bytes = std::size_t{8} << 30;
  spec.limits.file_bytes = kMostHeader;
  Result<Output> output = run_in_jail(spec, "", kPrecompileTimeout_s, 20000);
  if (!output || output->exit.code != 0) {
    return false;
  }
  Result<std::string> bytes = take_file(out / "torch.h.gch", kMostHeader);
  return bytes && write_file(folder / "ready/torch.h.gch", *bytes) && write_file(folder / "ready/torch.h", kHeaders);
}

}  // namespace

Result<TorchPlace> torch_place(const std::string& python) {
  static std::mutex mutex;
  static std::map<std::string, TorchPlace> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(python);
  if (found != known.end()) {
    return found->second;
  }
  Result<TorchPlace> place = ask(python);
  if (place) {
    known[python] = *place;
  }
  return place;
}

std::vector<std::string> torch_include_flags(const TorchPlace& place) {
  const std::string toolkit = above(compiler_path("cuda"), 2) + "/include";
  return {"-isystem", place.torch + "/include", "-isystem", place.torch + "/include/torch/csrc/api/include",
          "-isystem", place.python_include,     "-isystem", toolkit};
}

std::vector<std::string> torch_host_flags(const std::vector<std::string>& include_flags) {
  std::vector<std::string> flags = {
      "-O0", "-std=c++17", "-fPIC", "-fdiagnostics-color=never", "-fmax-errors=10", "-DTORCH_API_INCLUDE_EXTENSION_H"};
  flags.insert(flags.end(), include_flags.begin(), include_flags.end());
  return flags;
}

bool in_torch_headers(const TorchPlace& place, const std::string& identifier) {
  static std::mutex mutex;
  static std::map<std::string, std::unordered_set<std::string>> known;
  const std::scoped_lock lock(mutex);
  std::unordered_set<std::string>& names = known[place.torch];
  if (names.empty()) {
    std::error_code error;
    for (fs::recursive_directory_iterator i(place.torch + "/include", error), end; !error && i != end;
         i.increment(error)) {
      const std::string text = i->is_regular_file(error) ? read_file(i->path()).value_or("") : "";
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t first = at;
        while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_')) {
          at++;
        }
        if (at > first) {
          names.insert(text.substr(first, at - first));
        } else {
          at++;
        }
      }
    }
  }
  return names.empty() || names.count(identifier) > 0;
}

std::string precompiled_torch(const TorchPlace& place, const std::string& cache_dir) {
  const Json key = {{"flags", torch_host_flags(torch_include_flags(place))},
                    {"headers", kHeaders},
                    {"torch", place.version},
                    {"machine", machine_identity("cpu")},
                    {"format", 1}};
  const fs::path ready = fs::path(cache_dir) / ("torch-" + sha256_hex(key.dump()).substr(0, 16));
  return made_once(ready, [&](const fs::path& folder) { return precompile(place, folder); });
}

}  // namespace khost::sandbox
