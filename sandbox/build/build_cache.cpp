#include "sandbox/build/build_cache.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace khost::sandbox {

namespace fs = std::filesystem;

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
  return put(hash + ".json", entry.dump(-1, ' ', false, Json::error_handler_t::replace), 0644);
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
