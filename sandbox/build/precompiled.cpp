#include "sandbox/build/precompiled.h"

#include <filesystem>
#include <optional>

#include "host/base/json.h"
#include "host/base/sha256.h"
#include "sandbox/build/build_cache.h"
#include "sandbox/build/made_once.h"
#include "sandbox/jail/jail.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr double kTimeout_s = 60;
// <cmath> brings along what kernels include beside it: only the first include of a source is taken precompiled.
constexpr const char* kStandardName = "cmath";
constexpr const char* kStandard = "#include <cmath>\n#include <bit>\n#include <cstddef>\n#include <cstdint>\n";

// Makes ready/NAME.gch below `folder` out of source/PATH. The compiler writes elsewhere: what a jail leaves is copied.
bool precompile(const HeaderRequest& request, const fs::path& folder, const std::string& path,
                const std::string& name) {
  const fs::path out = folder / "out";
  std::error_code error;
  fs::create_directory(out, error);
  JailSpec spec;
  spec.name = "headers";
  spec.argv = {request.compiler};
  spec.argv.insert(spec.argv.end(), request.flags.begin(), request.flags.end());
  spec.argv.insert(spec.argv.end(), {"-I.", "-Iutils", "-x", "c++-header", path, "-o", "/out/header.gch"});
  spec.cwd = "/build";
  spec.binds = {{(folder / "source").string(), "/build", false}, {out.string(), "/out", true}};
  Result<Output> output = run_in_jail(spec, "", kTimeout_s, 20000);
  const fs::path made = out / "header.gch";
  const bool there = output && output->exit.code == 0 && fs::is_regular_file(fs::symlink_status(made, error));
  const std::optional<std::string> bytes = there ? read_file(made) : std::nullopt;
  fs::remove_all(out, error);
  return bytes && write_file(folder / "ready" / (name + ".gch"), *bytes);
}

bool make_all(const HeaderRequest& request, const fs::path& folder) {
  bool good = write_file(folder / "source/standard.h", kStandard);
  for (const auto& [path, text] : request.files) {
    good = good && write_file(folder / "source" / path, text);
  }
  good = good && precompile(request, folder, "standard.h", kStandardName);
  // Beside it what is read where the precompiled one may not be taken.
  good = good && write_file(folder / "ready" / kStandardName, "#include_next <cmath>\n");
  for (const auto& [path, text] : request.files) {
    if (path.rfind("kernels/", 0) == 0) {
      good = good && precompile(request, folder, path, fs::path(path).filename().string());
    }
  }
  return good;
}

}  // namespace

std::string precompiled_headers(const HeaderRequest& request) {
  const Json key = {{"compiler", request.compiler}, {"flags", request.flags},
                    {"standard", kStandard},        {"format", 2},
                    {"files", request.files},       {"machine", request.identity}};
  const fs::path ready = fs::path(request.cache_dir) / ("headers-" + sha256_hex(key.dump()).substr(0, 16));
  return made_once(ready, [&](const fs::path& folder) { return make_all(request, folder); });
}

}  // namespace khost::sandbox
