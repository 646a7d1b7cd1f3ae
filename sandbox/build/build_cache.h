// The folder of built libraries: <hash>.json, written last, and for a success <hash>.so. Files appear whole,
// by rename, so any number of threads and processes may share a folder; nothing is ever changed. What was used least
// recently is removed when there is too much of it: a candidate's library has up to 256 MiB, and each may be another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/build/build.h"

namespace khost::sandbox {

class BuildCache {
 public:
  // `most_bytes`: of all libraries together; those used within the last minutes may stay beyond it.
  explicit BuildCache(std::filesystem::path folder, std::uintmax_t most_bytes = std::uintmax_t{8} << 30)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  // The library, or the failure, that was stored; nothing when there is none.
  std::optional<Result<Built>> find(const std::string& hash) const;
  // Entry: {"signatures", "warnings"} with a library, or {"failure", "code"} without one.
  Status store(const std::string& hash, const std::string& library, const Json& entry) const;

 private:
  Status put(const std::string& name, const std::string& bytes, unsigned mode) const;
  void trim() const;
  std::filesystem::path folder_;
  std::uintmax_t most_bytes_;
};

std::optional<std::string> read_file(const std::filesystem::path& path);
bool write_file(const std::filesystem::path& path, const std::string& bytes);  // makes the folders above it
Failure errno_failure(const std::string& what);                                // code io, with strerror

}  // namespace khost::sandbox
