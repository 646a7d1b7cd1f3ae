#include "sandbox/build/build_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace khost::sandbox {

namespace fs = std::filesystem;
namespace {

constexpr auto kInUse = std::chrono::minutes(10);  // a library may still be opened so long after it was found
constexpr std::uintmax_t kLookedAfter = std::uintmax_t{64} << 20;  // bytes that a process stores between two looks
std::atomic<std::uintmax_t> stored_bytes{kLookedAfter};            // since the last one; the first store looks

struct KeptLibrary {
  fs::path path;
  std::uintmax_t bytes = 0;
  fs::file_time_type used;
};

// Those of a folder, least recently used first. Others may remove some meanwhile.
std::vector<KeptLibrary> libraries_of(const fs::path& folder) {
  std::vector<KeptLibrary> found;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;
    KeptLibrary library{i->path(), i->file_size(gone), i->last_write_time(gone)};
    if (!gone && library.path.extension() == ".so") {
      found.push_back(std::move(library));
    }
  }
  std::sort(found.begin(), found.end(), [](const KeptLibrary& a, const KeptLibrary& b) { return a.used < b.used; });
  return found;
}

}  // namespace

std::optional<Result<Built>> BuildCache::find(const std::string& hash) const {
  const Json entry = Json::parse(read_file(folder_ / (hash + ".json")).value_or(""), nullptr, false);
  if (!entry.is_object()) {
    return std::nullopt;
  }
  if (entry.contains("failure")) {
    return Result<Built>(Failure{entry["failure"].get<std::string>(), entry["code"].get<std::string>()});
  }
  Built built;
  built.path = (folder_ / (hash + ".so")).string();
  if (access(built.path.c_str(), R_OK) != 0) {
    return std::nullopt;
  }
  // It is used now. This fails in a folder of somebody else's, who removes what is old there.
  utimensat(AT_FDCWD, built.path.c_str(), nullptr, 0);
  built.hash = hash;
  built.signatures = entry["signatures"].get<Signatures>();
  built.warnings = entry["warnings"].get<std::string>();
  return Result<Built>(std::move(built));
}

Status BuildCache::store(const std::string& hash, const std::string& library, const Json& entry) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!library.empty()) {
    if (const Status status = put(hash + ".so", library, 0444); !status) {
      return status;
    }
  }
  const Status status = put(hash + ".json", entry.dump(-1, ' ', false, Json::error_handler_t::replace), 0644);
  if (stored_bytes.fetch_add(library.size()) + library.size() >= std::min(kLookedAfter, most_bytes_)) {
    stored_bytes = 0;
    trim();
  }
  return status;
}

// An entry without its library is as good as none, so the library goes first.
void BuildCache::trim() const {
  const std::vector<KeptLibrary> libraries = libraries_of(folder_);
  std::uintmax_t bytes = 0;
  for (const KeptLibrary& library : libraries) {
    bytes += library.bytes;
  }
  const fs::file_time_type now = fs::file_time_type::clock::now();
  for (const KeptLibrary& library : libraries) {
    if (bytes <= most_bytes_ || now - library.used < kInUse) {
      return;
    }
    std::error_code error;
    fs::remove(library.path, error);
    fs::remove(fs::path(library.path).replace_extension(".json"), error);
    bytes -= library.bytes;
  }
}

// Another process may build the same: whoever renames last wins, with the same content.
Status BuildCache::put(const std::string& name, const std::string& bytes, unsigned mode) const {
  std::string temporary = (folder_ / ("." + name + "-XXXXXX")).string();
  const int fd = mkstemp(temporary.data());
  if (fd < 0) {
    return errno_failure("mkstemp " + temporary);
  }
  close(fd);
  if (!write_file(temporary, bytes) || chmod(temporary.c_str(), mode) != 0 ||
      rename(temporary.c_str(), (folder_ / name).c_str()) != 0) {
    const Failure failure = errno_failure("write " + (folder_ / name).string());
    unlink(temporary.c_str());
    return failure;
  }
  return ok();
}

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return std::nullopt;
  }
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool write_file(const fs::path& path, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  return out.good();
}

Failure errno_failure(const std::string& what) {
  return {what + ": " + std::strerror(errno), "io"};
}

}  // namespace khost::sandbox
