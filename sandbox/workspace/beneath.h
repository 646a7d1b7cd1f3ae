// Files of a folder that hostile processes also write. Every access is openat2 with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS from a descriptor of the folder: no link, no ".." and no race leads out of it, and what is not
// a regular file (a fifo, a device) is refused. Any thread may call.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/result.h"
#include "sandbox/jail/fd.h"

namespace khost::sandbox {

struct FileEntry {
  std::string path;  // relative to the folder
  size_t bytes = 0;
  int64_t mtime_ns = 0;
  bool folder = false;
};

class Folder {
 public:
  static Result<Folder> open(const std::string& path);
  // A folder below; "" is this one.
  Result<Folder> folder(const std::string& path) const;
  // Device and inode: the same for two descriptors of one folder.
  Result<std::pair<uint64_t, uint64_t>> identity() const;

  // code "limit" when the file is larger than most_bytes, "bad_input" when the path leaves the folder or is a link
  Result<std::string> read(const std::string& path, size_t most_bytes) const;
  // Replaces or creates by rename, with the folders above it; owner is the uid of what is made.
  Status write(const std::string& path, const std::string& text, std::optional<uid_t> owner) const;
  Status make_folder(const std::string& path, std::optional<uid_t> owner) const;
  Status remove(const std::string& path) const;  // a file or an empty folder; a link itself, never its target
  Result<FileEntry> entry(const std::string& path) const;
  // Names in the folder `path`, sorted, behind "file ", "folder ", "link " or "other " (a pipe, a device, a socket).
  Result<std::vector<std::string>> list(const std::string& path) const;
  // Regular files below `under` ("" is all) by path, links left out; "limit" beyond `most`.
  Result<std::vector<FileEntry>> files(const std::string& under, size_t most) const;

 private:
  explicit Folder(Fd fd) : fd_(std::move(fd)) {}
  Result<Fd> open_beneath(const std::string& path, int flags) const;
  Result<Fd> open_parent(const std::string& path, std::string& name) const;
  Fd fd_;
};

// Without "." parts and doubled slashes; fails with bad_input on "..", NUL or an absolute path.
Result<std::string> tidy_path(const std::string& path);

}  // namespace khost::sandbox
