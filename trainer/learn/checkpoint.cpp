#include "trainer/learn/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "host/base/defer.h"
#include "host/base/json_text.h"
#include "host/base/sha256.h"

namespace khost::trainer {
namespace {

namespace fs = std::filesystem;

Failure failed(const std::string& what, const std::string& path) {
  return Failure{what + " " + path + ": " + std::strerror(errno), "io"};
}

Status flush(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0) {
    const Failure failure = failed("fsync", path);
    ::close(fd);
    return failure;
  }
  ::close(fd);
  return ok();
}

Status write_manifest(const std::string& directory) {
  Json files = Json::object();
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const Result<std::string> sha256 = sha256_of_file(entry.path());
    if (!sha256) {
      return sha256.failure();
    }
    files[entry.path().filename()] = {{"bytes", entry.file_size()}, {"sha256", *sha256}};
    if (const Status flushed = flush(entry.path()); !flushed) {
      return flushed;
    }
  }
  const std::string path = directory + "/manifest.json";
  if (const Status written = write_json(path, {{"files", files}}); !written) {
    return written;
  }
  return flush(path);
}

}  // namespace

Status write_checkpoint(const std::string& directory, const std::function<Status(const std::string&)>& fill) {
  const fs::path target = fs::absolute(directory).lexically_normal();
  const std::string fresh = target.string() + ".new-" + std::to_string(getpid());
  std::error_code error;
  fs::remove_all(fresh, error);
  fs::create_directories(fresh, error);
  if (error) {
    return Failure{"create " + fresh + ": " + error.message(), "io"};
  }
  const Defer clean([&] {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
  });
  if (const Status filled = fill(fresh); !filled) {
    return filled;
  }
  if (const Status written = write_manifest(fresh); !written) {
    return written;
  }
  if (const Status flushed = flush(fresh); !flushed) {
    return flushed;
  }
  // An existing checkpoint is exchanged in one call, so that there is never none.
  const unsigned flags = fs::exists(target) ? RENAME_EXCHANGE : 0;
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), flags) != 0) {
    return failed("rename", fresh);
  }
  return flush(target.parent_path());
}

Status verify_checkpoint(const std::string& directory) {
  const Result<Json> manifest = read_json(directory + "/manifest.json");
  if (!manifest) {
    return manifest.failure();
  }
  const Json files = manifest.value().value("files", Json());
  if (!files.is_object() || files.empty()) {
    return Failure{directory + "/manifest.json names no files", "bad_input"};
  }
  for (const auto& [name, entry] : files.items()) {
    const Result<std::string> sha256 = sha256_of_file(directory + "/" + name);
    if (!sha256) {
      return sha256.failure();
    }
    if (*sha256 != entry.value("sha256", "")) {
      return Failure{directory + "/" + name + " is not what the checkpoint's manifest says", "bad_input"};
    }
  }
  return ok();
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  return out ? ok() : Status(failed("write", path));
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return failed("open", path);
  }
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

Status write_json(const std::string& path, const Json& json) {
  return write_file(path, json.dump(1) + "\n");
}

Result<Json> read_json(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.failure();
  }
  Result<Json> json = parse_json(text.value());
  if (!json) {
    return Failure{path + ": " + json.failure().message, "bad_input"};
  }
  return json;
}

}  // namespace khost::trainer
