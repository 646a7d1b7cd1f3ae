// The folder of built libraries: <hash>.json, written last, and for a success <hash>.so. Files appear whole,
// by rename, so any number of threads and processes may share a folder; nothing is ever changed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/build/build.h"

namespace khost::sandbox {

class BuildCache {
 public:
  explicit BuildCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The library, or the failure, that was stored; nothing when there is none.
  std::optional<Result<Built>> find(const std::string& hash) const;
  // Entry: {"signatures", "warnings"} with a library, or {"failure", "code"} without one.
  Status store(const std::string& hash, const std::string& library, const Json& entry) const;

 private:
  Status put(const std::string& name, const std::string& bytes, unsigned mode) const;
  std::filesystem::path folder_;
};

std::optional<std::string> read_file(const std::filesystem::path& path);
bool write_file(const std::filesystem::path& path, const std::string& bytes);  // makes the folders above it
Failure errno_failure(const std::string& what);                                // code io, with strerror

}  // namespace khost::sandbox
