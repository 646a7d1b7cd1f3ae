#include "sandbox/build/extension.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "host/base/defer.h"
#include "host/base/json.h"
#include "host/base/sha256.h"
#include "sandbox/build/build_cache.h"
#include "sandbox/build/compiler.h"
#include "sandbox/build/extension_rules.h"
#include "sandbox/build/nvcc.h"
#include "sandbox/build/torch_headers.h"
#include "sandbox/jail/jail.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 64;
constexpr std::size_t kMostSourceBytes = std::size_t{4} << 20;
constexpr std::size_t kMostLibraryBytes = std::size_t{256} << 20;
constexpr std::size_t kMostObjectBytes = std::size_t{64} << 20;
constexpr const char* kFormat = "2";
constexpr const char* kWorkspaceModule = "cuda_extension";

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_host(const std::string& path) {
  return ends_with(path, ".cpp") || ends_with(path, ".cc");
}
bool is_compiled(const std::string& path) {
  return is_host(path) || ends_with(path, ".cu");
}

Status check_sources(const ExtensionRequest& request) {
  std::size_t bytes = 0;
  bool compiled = false;
  for (const auto& [path, text] : request.sources) {
    bytes += text.size();
    compiled = compiled || is_compiled(path);
    if (!plain(path, "_-./") || path[0] == '/' || path.find("..") != std::string::npos) {
      return Failure{"file name '" + path.substr(0, 200) + "' is refused: letters, digits, _, -, . and / are accepted",
                     "bad_input"};
    }
  }
  if (!plain(request.name, "_") || !compiled) {
    return Failure{"an extension has a name and a .cpp or .cu file", "bad_input"};
  }
  if (request.sources.size() > kMostFiles || bytes > kMostSourceBytes) {
    return Failure{"the extension has more than 64 files or 4 MiB", "limit"};
  }
  return ok();
}

enum class Headers { light, torch };

// What a build needs besides the request.
struct Place {
  TorchPlace torch;
  std::string light;        // folder of the light headers
  std::string light_hash;   // of what lies in it
  std::string precompiled;  // folder, or empty
};

// A build as it will be run: command lines and what they are kept under.
struct Steps {
  std::vector<std::string> host, cuda, link;
  std::map<std::string, std::string> objects;  // of sources in C++: path -> hash
};

Steps steps_of(const ExtensionRequest& request, const Place& place, Headers headers) {
  Steps steps;
  const bool light = headers == Headers::light;
  std::vector<std::string> includes = torch_include_flags(place.torch);
  if (light) {
    includes.insert(includes.begin() + 4, {"-isystem", "/light"});
    includes.erase(includes.begin(), includes.begin() + 4);
  }
  const std::string name = "-DTORCH_EXTENSION_NAME=" + request.name;
  const auto add = [](std::vector<std::string>& to, const std::vector<std::string>& words) {
    to.insert(to.end(), words.begin(), words.end());
  };
  const std::vector<std::string> own = harmless_flags(request.cflags, false);
  const bool other_language = std::any_of(own.begin(), own.end(), [](const std::string& flag) {
    return flag.rfind("-std=", 0) == 0 && flag != "-std=c++17" && flag != "-std=gnu++17";
  });
  if (!light && !place.precompiled.empty() && !other_language) {
    add(steps.host, {"-Winvalid-pch", "-include", "/headers/torch.h"});
  }
  add(steps.host, torch_host_flags(includes));
  for (const std::string& flag : own) {
    // The precompiled headers stand for one level of optimisation and one language.
    if (flag.rfind("-O", 0) != 0 && (other_language || flag.rfind("-std=", 0) != 0)) {
      steps.host.push_back(flag);
    }
  }
  add(steps.host, {name, "-I.", "-Ikernels"});

  steps.cuda = {"-O3",
                "-D__CUDA_NO_HALF_OPERATORS__",
                "-D__CUDA_NO_HALF_CONVERSIONS__",
                "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
                "-D__CUDA_NO_HALF2_OPERATORS__",
                "--expt-relaxed-constexpr",
                "-DTORCH_API_INCLUDE_EXTENSION_H"};
  std::vector<std::string> cuda = harmless_flags(request.cuda_cflags, true);
  if (std::none_of(cuda.begin(), cuda.end(), [](const std::string& flag) { return flag.rfind("-std=", 0) == 0; })) {
    cuda.insert(cuda.begin(), "-std=c++17");
  }
  add(steps.cuda, cuda);
  add(steps.cuda, {"-Xcompiler", "-fPIC,-fdiagnostics-color=never,-fmax-errors=10,-O0", name, "-I.", "-Ikernels"});
  add(steps.cuda, includes);
  add(steps.cuda, architecture_flags(request.arch));

  steps.link = {"-L" + place.torch.torch + "/lib",
                "-L" + (fs::path(compiler_path("cuda")).parent_path().parent_path() / "lib64").string(),
                "-Wl,--as-needed", "-Wl,--allow-shlib-undefined"};
  add(steps.link, harmless_libraries(request.ldflags));
  if (!light) {
    add(steps.link, {"-lc10", "-lc10_cuda", "-ltorch_cpu", "-ltorch_cuda", "-ltorch", "-ltorch_python"});
  }
  steps.link.emplace_back("-lcudart");

  Json beside = Json::object();
  for (const auto& [path, text] : request.sources) {
    if (!is_compiled(path)) {
      beside[path] = text;
    }
  }
  const Json machine = {kFormat, machine_identity("cpu"), light ? place.light_hash : place.torch.version};
  for (const auto& [path, text] : request.sources) {
    if (is_host(path)) {
      const Json key = {machine, steps.host, beside, path, text};
      steps.objects[path] = sha256_hex(key.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
  return steps;
}

// Of everything that goes in, whichever headers it is compiled with in the end.
std::string hash_of(const ExtensionRequest& request, const Place& place) {
  const Steps steps = steps_of(request, place, Headers::torch);
  const Json key = {{"format", kFormat},
                    {"cpu", machine_identity("cpu")},
                    {"cuda", machine_identity("cuda")},
                    {"torch", place.torch.version},
                    {"light", place.light_hash},
                    {"host", steps.host},
                    {"device", steps.cuda},
                    {"link", steps.link},
                    {"sources", request.sources}};
  return sha256_hex(key.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// The same in every process, and asked for once in each.
Result<std::pair<std::string, std::string>> light_headers() {
  static const Result<std::pair<std::string, std::string>> known = []() -> Result<std::pair<std::string, std::string>> {
    Result<std::string> folder = own_path("sandbox/build/extension/light");
    if (!folder) {
      return folder.failure();
    }
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(*folder)) {
      if (entry.is_regular_file()) {
        files[fs::relative(entry.path(), *folder).string()] = read_file(entry.path()).value_or("");
      }
    }
    return std::pair{*folder, sha256_hex(Json(files).dump(-1, ' ', false, Json::error_handler_t::replace))};
  }();
  return known;
}

std::string cache_of(const ExtensionRequest& request) {
  return request.cache_dir.empty() ? default_cache_dir() : request.cache_dir;
}

fs::path object_path(const std::string& cache, const std::string& hash) {
  return fs::path(cache) / "objects" / (hash + ".o");
}

// Renamed into place: another process may make the same.
void keep_object(const fs::path& to, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  std::string temporary = (to.parent_path() / "new-XXXXXX").string();
  const int fd = mkstemp(temporary.data());
  if (fd >= 0) {
    close(fd);
    if (write_file(temporary, bytes) && chmod(temporary.c_str(), 0644) == 0) {
      fs::rename(temporary, to, error);
    }
    fs::remove(temporary, error);
  }
}

struct Made {
  std::string library, text;
};

Result<Made> compile(const ExtensionRequest& request, const Place& place, const Steps& steps) {
  std::string folder = (fs::temp_directory_path() / "khost-extension-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return errno_failure("mkdtemp " + folder);
  }
  const Defer remove([&] {
    std::error_code error;
    fs::remove_all(folder, error);
  });
  chmod(folder.c_str(), 0755);
  const std::string cache = cache_of(request);
  std::vector<std::string> sources, link;
  for (const auto& [path, text] : request.sources) {
    if (!write_file(fs::path(folder) / "source" / path, text)) {
      return errno_failure("write " + path);
    }
    std::error_code error;
    if (is_host(path) && fs::exists(object_path(cache, steps.objects.at(path)), error)) {
      link.push_back("/objects/" + steps.objects.at(path) + ".o");
    } else if (is_compiled(path)) {
      sources.push_back(path);
    }
  }
  link.insert(link.end(), steps.link.begin(), steps.link.end());
  const fs::path out = fs::path(folder) / "out";
  std::error_code error;
  fs::create_directory(out, error);
  fs::create_directories(fs::path(cache) / "objects", error);

  JailSpec spec;
  spec.name = "extension";
  spec.argv = nvcc_steps(compiler_path("cuda"), "/out/library.so", sources, steps.cuda, link, steps.host);
  spec.cwd = "/build";
  spec.binds = {{folder + "/source", "/build", false},
                {out.string(), "/out", true},
                {(fs::path(cache) / "objects").string(), "/objects", false}};
  spec.binds.push_back({place.light, "/light", false});
  if (!place.precompiled.empty()) {
    spec.binds.push_back({place.precompiled, "/headers", false});
  }
  const std::string bin = fs::path(compiler_path("cuda")).parent_path().string();
  spec.environment["PATH"] = bin + ":/usr/bin:/bin";
  spec.readable_prefixes = place.torch.prefixes;
  spec.readable_prefixes.push_back(fs::path(bin).parent_path().string());
  spec.limits.cpu_s = request.timeout_s + 1;
  spec.limits.file_bytes = kMostLibraryBytes;
  spec.limits.memory_bytes = std::size_t{12} << 30;
  spec.limits.tmp_bytes = std::size_t{1} << 30;
  Result<std::string> text = run_compiler(spec, request.timeout_s);
  if (!text) {
    return text.failure();
  }
  Result<std::string> library = take_file(out / "library.so", kMostLibraryBytes);
  if (!library) {
    return library.failure();
  }
  for (const auto& [path, hash] : steps.objects) {
    std::string name = path + ".o";
    std::replace(name.begin(), name.end(), '/', '_');
    if (Result<std::string> object = take_file(out / name, kMostObjectBytes)) {
      keep_object(object_path(cache, hash), *object);
    }
  }
  return Made{std::move(*library), std::move(*text)};
}

}  // namespace

Result<ExtensionRequest> workspace_extension(const std::map<std::string, std::string>& files) {
  ExtensionRequest request;
  request.name = kWorkspaceModule;
  request.cuda_cflags = {"--use_fast_math"};  // as the released script compiles
  for (const auto& [path, text] : files) {
    const bool header =
        ends_with(path, ".h") || ends_with(path, ".cuh") || ends_with(path, ".hpp") || ends_with(path, ".inc");
    if (path.rfind("kernels/", 0) == 0 && (is_compiled(path) || header)) {
      request.sources[path] = text;
    }
  }
  for (const char* name : {"binding.cpp", "binding_registry.h"}) {
    Result<std::string> text = own_file(std::string("sandbox/build/extension/") + name);
    if (!text) {
      return text.failure();
    }
    request.sources[name] = std::move(*text);
  }
  return request;
}

bool prepare_extensions(const std::string& python, const std::string& cache_dir) {
  Result<TorchPlace> place = torch_place(python);
  return place && !precompiled_torch(*place, cache_dir.empty() ? default_cache_dir() : cache_dir).empty();
}

Result<Built> build_extension(const ExtensionRequest& request) {
  if (Status good = check_sources(request); !good) {
    return good.failure();
  }
  Result<TorchPlace> place = torch_place(request.python);
  if (!place) {
    return place.failure();
  }
  if (machine_identity("cuda").empty() || machine_identity("cpu").empty()) {
    return Failure{"the compiler does not run in a jail", "host"};
  }
  Result<std::pair<std::string, std::string>> light = light_headers();
  if (!light) {
    return light.failure();
  }
  const auto started = std::chrono::steady_clock::now();
  Place at{*place, light->first, light->second, ""};
  const std::string hash = hash_of(request, at);
  const BuildCache cache(cache_of(request));
  if (std::optional<Result<Built>> found = cache.find(hash)) {
    return std::move(*found);
  }
  Result<Made> made = compile(request, at, steps_of(request, at, Headers::light));
  if (!made && made.failure().code == "build" &&
      !own_mistakes(made.failure().message, [&](const std::string& name) { return in_torch_headers(*place, name); })) {
    at.precompiled = precompiled_torch(*place, cache_of(request));
    made = compile(request, at, steps_of(request, at, Headers::torch));
  }
  const Status admitted = made ? admit_extension(made->library) : Status(made.failure());
  if (!admitted) {
    const Failure& failure = admitted.failure();
    if (failure.code == "build" || failure.code == "violation" || failure.code == "bad_input") {
      (void)cache.store(hash, "", {{"failure", failure.message}, {"code", failure.code}});
    }
    return failure;
  }
  if (Status stored = cache.store(hash, made->library, {{"signatures", Json::object()}, {"warnings", made->text}});
      !stored) {
    return stored.failure();
  }
  std::optional<Result<Built>> stored = cache.find(hash);
  if (!stored) {
    return Failure{"the cache lost " + hash, "io"};
  }
  (*stored)->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return std::move(*stored);
}

}  // namespace khost::sandbox
