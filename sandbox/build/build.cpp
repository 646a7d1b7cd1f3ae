#include "sandbox/build/build.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include "host/base/defer.h"
#include "host/base/json.h"
#include "host/base/sha256.h"
#include "sandbox/build/build_cache.h"
#include "sandbox/build/compiler.h"
#include "sandbox/build/nvcc.h"
#include "sandbox/build/precompiled.h"
#include "sandbox/jail/jail.h"
#include "sandbox/jail/output_cut.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 64;
constexpr std::size_t kMostSourceBytes = 2u << 20;
constexpr std::size_t kMostLibraryBytes = 256u << 20;
constexpr const char* kFormat = "4";  // part of the key: raise it when the meaning of a cache entry changes
constexpr const char* kLibrary = "library.so";

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_source(const std::string& path, const std::string& target) {
  return ends_with(path, ".cpp") || ends_with(path, ".cc") || (target == "cuda" && ends_with(path, ".cu"));
}

bool is_header(const std::string& path) {
  return ends_with(path, ".h") || ends_with(path, ".hpp") || ends_with(path, ".cuh") || ends_with(path, ".inc");
}

// Relative, no step upwards, and letters that need no quoting anywhere.
bool plain_path(const std::string& path) {
  const bool letters = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
  });
  return letters && path.size() < 200 && path[0] != '/' && path.find("..") == std::string::npos &&
         path.find("/-") == std::string::npos;
}

struct Sources {
  std::map<std::string, std::string> files;  // what lies in the jail
  std::vector<std::string> compiled;
};

Result<Sources> take_sources(const BuildRequest& request) {
  Sources result;
  std::size_t bytes = 0;
  for (const auto& [path, text] : request.files) {
    if (path.rfind("kernels/", 0) != 0 || (!is_source(path, request.target) && !is_header(path))) {
      continue;
    }
    if (!plain_path(path)) {
      return Failure{"file name '" + path.substr(0, 200) + "' is refused: letters, digits, _, -, . and / are accepted",
                     "bad_input"};
    }
    bytes += text.size();
    result.files[path] = text;
    if (is_source(path, request.target)) {
      result.compiled.push_back(path);
    }
  }
  if (result.compiled.empty()) {
    return Failure{
        request.target == "cuda" ? "there is no .cu or .cpp file in kernels/" : "there is no .cpp file in kernels/",
        "bad_input"};
  }
  if (result.files.size() > kMostFiles || bytes > kMostSourceBytes) {
    return Failure{"kernels/ holds more than 64 files or 2 MiB", "limit"};
  }
  Result<std::string> header = abi_file("utils/khost.h");
  if (!header) {
    return header.failure();
  }
  result.files["utils/khost.h"] = std::move(*header);
  return result;
}

// What a precompiled header must have been made with.
const std::vector<std::string> kCpuFlags = {"-O3",      "-march=native",   "-std=c++20",
                                            "-fopenmp", "-fno-math-errno", "-fPIC"};

std::vector<std::string> cuda_command_line(const BuildRequest& request, const Sources& sources) {
  const std::string nvcc = compiler_path("cuda");
  std::vector<std::string> flags = {
      "-O3", "-std=c++20", "-Xcompiler", "-fPIC,-fdiagnostics-color=never,-fmax-errors=10",
      "-I.", "-Iutils",    "-Ikernels"};
  const std::vector<std::string> architecture = architecture_flags(request.arch);
  flags.insert(flags.end(), architecture.begin(), architecture.end());
  flags.insert(flags.end(), request.flags.begin(), request.flags.end());
  std::vector<std::string> link = {"-L" + (fs::path(nvcc).parent_path().parent_path() / "lib64").string(),
                                   "-lcudart",
                                   "-Wl,-z,defs",
                                   "-Wl,--as-needed",
                                   "-lcublas",
                                   "-lcublasLt"};
  if (cudnn_installed()) {
    link.emplace_back("-lcudnn");
  }
  return nvcc_steps(nvcc, std::string("/out/") + kLibrary, sources.compiled, flags, link);
}

std::vector<std::string> command_line(const BuildRequest& request, const Sources& sources) {
  if (request.target == "cuda") {
    return cuda_command_line(request, sources);
  }
  std::vector<std::string> argv = {compiler_path(request.target)};
  const auto add = [&](std::initializer_list<const char*> words) {
    argv.insert(argv.end(), words.begin(), words.end());
  };
  argv.insert(argv.end(), kCpuFlags.begin(), kCpuFlags.end());
  add({"-shared", "-pipe", "-fdiagnostics-color=never", "-fmax-errors=10", "-Wl,-z,defs", "-Wl,--as-needed",
       "-I/headers", "-I.", "-Iutils", "-Ikernels", "-o"});
  argv.push_back(std::string("/out/") + kLibrary);
  argv.insert(argv.end(), request.flags.begin(), request.flags.end());
  argv.insert(argv.end(), sources.compiled.begin(), sources.compiled.end());
  return argv;
}

std::string hash_of(const BuildRequest& request, const Sources& sources, const std::vector<std::string>& argv) {
  Json key = {{"format", kFormat},
              {"files", sources.files},
              {"argv", argv},
              {"target", request.target},
              {"machine", machine_identity(request.target)}};
  return sha256_hex(key.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string cache_folder(const BuildRequest& request) {
  return request.cache_dir.empty() ? default_cache_dir() : request.cache_dir;
}

// Precompiled headers for a build: their folder, and which of them stand for a header in kernels/.
struct Headers {
  std::string folder;
  std::vector<std::string> beside;
};

// Of the template's own headers, where the candidate has not changed them.
Headers headers_for(const BuildRequest& request, const Sources& sources) {
  static const std::string kOwn = "kernels/fast.h";
  Result<std::string> own = abi_file(kOwn);
  if (!own) {
    return {};
  }
  Headers result;
  result.folder = precompiled_headers({compiler_path(request.target),
                                       kCpuFlags,
                                       {{kOwn, *own}, {"utils/khost.h", sources.files.at("utils/khost.h")}},
                                       machine_identity(request.target),
                                       cache_folder(request)});
  const auto theirs = sources.files.find(kOwn);
  if (!result.folder.empty() && theirs != sources.files.end() && theirs->second == *own) {
    result.beside.push_back(fs::path(kOwn).filename().string());
  }
  return result;
}

struct Compiled {
  std::string library;
  std::string text;
};

// The whole build in a fresh folder that is gone afterwards.
Result<Compiled> compile(const BuildRequest& request, const Sources& sources, const std::vector<std::string>& argv) {
  const Headers headers = request.target == "cpu" ? headers_for(request, sources) : Headers{};
  std::string folder = (fs::temp_directory_path() / "khost-build-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return errno_failure("mkdtemp " + folder);
  }
  const Defer remove([&] {
    std::error_code error;
    fs::remove_all(folder, error);
  });
  chmod(folder.c_str(), 0755);
  for (const auto& [path, text] : sources.files) {
    if (!write_file(fs::path(folder) / "source" / path, text)) {
      return errno_failure("write " + path);
    }
  }
  for (const std::string& name : headers.beside) {
    std::error_code error;
    fs::create_symlink("/headers/" + name + ".gch", fs::path(folder) / "source/kernels" / (name + ".gch"), error);
  }
  const fs::path out = fs::path(folder) / "out";
  fs::create_directory(out);

  JailSpec spec;
  spec.name = "build";
  spec.argv = argv;
  spec.cwd = "/build";
  spec.binds = {{folder + "/source", "/build", false}, {out.string(), "/out", true}};
  if (!headers.folder.empty()) {
    spec.binds.push_back({headers.folder, "/headers", false});
  }
  spec.limits.cpu_s = request.timeout_s + 1;
  spec.limits.file_bytes = kMostLibraryBytes;
  spec.limits.memory_bytes = 6ull << 30;
  if (request.target == "cuda") {
    const std::string bin = fs::path(compiler_path("cuda")).parent_path().string();
    spec.environment["PATH"] = bin + ":/usr/bin:/bin";
    spec.readable_prefixes = {fs::path(bin).parent_path().string()};
  }
  Result<std::string> text = run_compiler(spec, request.timeout_s);
  if (!text) {
    return text.failure();
  }
  Result<std::string> library = take_file(out / kLibrary, kMostLibraryBytes);
  if (!library) {
    return library.failure();
  }
  return Compiled{std::move(*library), std::move(*text)};
}

constexpr std::size_t kMostMessage = 8192;

// Whether the same build would fail in the same way again; one whose compiler was killed may not.
bool lasting(const Failure& failure) {
  return failure.code == "build" || failure.code == "violation" || failure.code == "bad_input";
}

Result<Built> build_fresh(const BuildRequest& request, const Sources& sources, const std::vector<std::string>& argv,
                          const BuildCache& cache, const std::string& hash) {
  const auto started = std::chrono::steady_clock::now();
  Result<Compiled> compiled = compile(request, sources, argv);
  Result<Signatures> signatures = compiled ? admit_library(compiled->library, request.target) : compiled.failure();
  if (!signatures) {
    // Names in it are the candidate's, and may have megabytes.
    const Failure failure{cut_middle(signatures.failure().message, kMostMessage), signatures.failure().code};
    if (lasting(failure)) {
      if (const Status status = cache.store(hash, "", {{"failure", failure.message}, {"code", failure.code}});
          !status) {
        return status.failure();
      }
    }
    return failure;
  }
  const Status status =
      cache.store(hash, compiled->library, {{"signatures", *signatures}, {"warnings", compiled->text}});
  if (!status) {
    return status.failure();
  }
  std::optional<Result<Built>> stored = cache.find(hash);
  if (!stored) {
    return Failure{"the cache lost " + hash, "io"};
  }
  (*stored)->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return std::move(*stored);
}

}  // namespace

std::string default_cache_dir() {
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const fs::path base =
      cache != nullptr && *cache != '\0' ? fs::path(cache) : fs::path(home != nullptr ? home : "/tmp") / ".cache";
  return (base / "khost" / "artefacts").string();
}

Result<std::string> own_path(const std::string& path) {
  std::vector<fs::path> roots;
  if (const char* root = getenv("KHOST_ROOT"); root != nullptr) {
    roots.emplace_back(root);
  }
  const fs::path above = fs::path(self_directory()).parent_path();
  roots.insert(roots.end(), {above, above / "share" / "khost"});
#ifdef KHOST_SOURCE_DIR
  roots.emplace_back(KHOST_SOURCE_DIR);
#endif
  for (const fs::path& root : roots) {
    std::error_code error;
    if (fs::exists(root / path, error)) {
      return (root / path).string();
    }
  }
  return Failure{path + " is not found; set KHOST_ROOT to the source folder", "host"};
}

Result<std::string> own_file(const std::string& path) {
  Result<std::string> place = own_path(path);
  if (!place) {
    return place;
  }
  std::optional<std::string> text = read_file(*place);
  return text ? Result<std::string>(std::move(*text)) : Failure{*place + " cannot be read", "host"};
}

Result<std::string> abi_file(const std::string& path) {
  return own_file("skills/cpp-kernel/template/" + path);
}

bool cudnn_installed() {
  const auto folders = {"/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/include",
                        "/usr/local/cuda/include"};
  return std::any_of(folders.begin(), folders.end(),
                     [](const char* folder) { return fs::exists(fs::path(folder) / "cudnn.h"); });
}

Result<Built> build(const BuildRequest& request) {
  if (request.target != "cpu" && request.target != "cuda") {
    return Failure{"target '" + request.target + "' is unknown; accepted are cpu and cuda", "bad_input"};
  }
  Result<Sources> sources = take_sources(request);
  if (!sources) {
    return sources.failure();
  }
  if (machine_identity(request.target).empty()) {
    return Failure{"the compiler " + compiler_path(request.target) + " does not run in a jail", "host"};
  }
  const std::vector<std::string> argv = command_line(request, *sources);
  const std::string hash = hash_of(request, *sources, argv);
  const BuildCache cache(cache_folder(request));
  if (std::optional<Result<Built>> found = cache.find(hash)) {
    return std::move(*found);
  }
  return build_fresh(request, *sources, argv, cache, hash);
}

}  // namespace khost::sandbox
