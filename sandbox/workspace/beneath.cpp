#include "sandbox/workspace/beneath.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <sstream>

#include "host/base/defer.h"

namespace khost::sandbox {
namespace {

Failure path_failure(const std::string& path, int error) {
  if (error == ELOOP) {
    return Failure{path + ": symbolic links are not followed here", "bad_input"};
  }
  if (error == EXDEV) {
    return Failure{path + ": lies outside the workspace", "bad_input"};
  }
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Failure{path + ": the workspace is full", "limit"};
  }
  return Failure{path + ": " + strerror(error), "io"};
}

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

FileEntry entry_of(const std::string& path, const struct stat& info) {
  return {path, static_cast<size_t>(info.st_size), nanoseconds(info.st_mtim), S_ISDIR(info.st_mode)};
}

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

Status write_all(int fd, const std::string& text, const std::string& path) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) {
      return path_failure(path, errno);
    }
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
  return ok();
}

}  // namespace

Result<std::string> tidy_path(const std::string& path) {
  if (path.find('\0') != std::string::npos || (!path.empty() && path[0] == '/')) {
    return Failure{path + ": a relative path is needed here", "bad_input"};
  }
  std::istringstream parts(path);
  std::string tidy;
  for (std::string part; std::getline(parts, part, '/');) {
    if (part == "..") {
      return Failure{path + ": lies outside the workspace", "bad_input"};
    }
    if (!part.empty() && part != ".") {
      tidy = joined(tidy, part);
    }
  }
  return tidy;
}

Result<Folder> Folder::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return path_failure(path, errno);
  }
  return Folder(std::move(fd));
}

Result<Folder> Folder::folder(const std::string& path) const {
  const Result<std::string> tidy = tidy_path(path);
  if (!tidy) {
    return tidy.failure();
  }
  Result<Fd> fd = open_beneath(tidy.value(), O_PATH | O_DIRECTORY);
  return fd ? Result<Folder>(Folder(std::move(*fd))) : fd.failure();
}

Result<std::pair<uint64_t, uint64_t>> Folder::identity() const {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) {
    return path_failure("the folder", errno);
  }
  return std::pair<uint64_t, uint64_t>(info.st_dev, info.st_ino);
}

Result<Fd> Folder::open_beneath(const std::string& path, int flags) const {
  open_how how{};
  how.flags = static_cast<unsigned long long>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int tries = 0; tries < 20; ++tries) {
    Fd fd(static_cast<int>(syscall(SYS_openat2, fd_.get(), path.empty() ? "." : path.c_str(), &how, sizeof how)));
    if (fd) {
      return fd;
    }
    if (errno != EAGAIN) {  // a rename went on meanwhile, and the kernel could not rule out an escape
      return path_failure(path, errno);
    }
  }
  return Failure{path + ": changes too fast", "busy"};
}

// Descriptor of the folder that holds `path`, and the last part of the path.
Result<Fd> Folder::open_parent(const std::string& path, std::string& name) const {
  const Result<std::string> tidy = tidy_path(path);
  if (!tidy) {
    return tidy.failure();
  }
  if (tidy.value().empty()) {
    return Failure{path + ": names the workspace itself", "bad_input"};
  }
  const size_t slash = tidy.value().rfind('/');
  name = slash == std::string::npos ? tidy.value() : tidy.value().substr(slash + 1);
  return open_beneath(slash == std::string::npos ? "" : tidy.value().substr(0, slash), O_PATH | O_DIRECTORY);
}

Result<std::string> Folder::read(const std::string& path, size_t most_bytes) const {
  const Result<std::string> tidy = tidy_path(path);
  if (!tidy) {
    return tidy.failure();
  }
  const Result<Fd> file = open_beneath(tidy.value(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) {
    return file.failure();
  }
  struct stat info {};
  if (fstat(file.value().get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Failure{path + ": not a regular file", "bad_input"};
  }
  const Failure too_large{path + ": larger than " + std::to_string(most_bytes) + " bytes", "limit"};
  if (static_cast<size_t>(info.st_size) > most_bytes) {
    return too_large;
  }
  std::string text;
  char buffer[65536];
  for (ssize_t n; (n = ::read(file.value().get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > most_bytes) {  // it grew meanwhile
      return too_large;
    }
  }
  return text;
}

Status Folder::make_folder(const std::string& path, std::optional<uid_t> owner) const {
  const Result<std::string> tidy = tidy_path(path);
  if (!tidy) {
    return tidy.failure();
  }
  for (size_t end = 0; !tidy.value().empty() && end != std::string::npos;) {
    end = tidy.value().find('/', end + 1);
    std::string name;
    const Result<Fd> parent = open_parent(tidy.value().substr(0, end), name);
    if (!parent) {
      return parent.failure();
    }
    if (mkdirat(parent.value().get(), name.c_str(), 0755) != 0) {
      if (errno != EEXIST) {
        return path_failure(path, errno);
      }
      continue;
    }
    // through a descriptor of what is there now: whoever may write here could have put a link in its place
    const Fd made(openat(parent.value().get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made || fchmod(made.get(), 0755) != 0 || (owner && fchown(made.get(), *owner, *owner) != 0)) {
      return path_failure(path, errno);
    }
  }
  return ok();
}

Status Folder::write(const std::string& path, const std::string& text, std::optional<uid_t> owner) const {
  static std::atomic<unsigned> number{0};
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos) {
    Status made = make_folder(path.substr(0, slash), owner);
    if (!made) {
      return made;
    }
  }
  std::string name;
  const Result<Fd> parent = open_parent(path, name);
  if (!parent) {
    return parent.failure();
  }
  const int folder = parent.value().get();
  struct stat old {};
  const bool replaces = fstatat(folder, name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (replaces && !S_ISREG(old.st_mode)) {
    return Failure{path + ": not a regular file", "bad_input"};
  }
  const std::string draft = ".khost-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  const Fd file(openat(folder, draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    return path_failure(path, errno);
  }
  Status written = write_all(file.get(), text, path);
  if (written && fchmod(file.get(), replaces ? old.st_mode & 0777 : 0644) != 0) {
    written = path_failure(path, errno);
  }
  if (written && owner && fchown(file.get(), *owner, *owner) != 0) {
    written = path_failure(path, errno);
  }
  if (written && renameat(folder, draft.c_str(), folder, name.c_str()) != 0) {
    written = path_failure(path, errno);
  }
  if (!written) {
    unlinkat(folder, draft.c_str(), 0);
  }
  return written;
}

Status Folder::remove(const std::string& path) const {
  std::string name;
  const Result<Fd> parent = open_parent(path, name);
  if (!parent) {
    return parent.failure();
  }
  if (unlinkat(parent.value().get(), name.c_str(), 0) != 0 &&
      (errno != EISDIR || unlinkat(parent.value().get(), name.c_str(), AT_REMOVEDIR) != 0)) {
    return path_failure(path, errno);
  }
  return ok();
}

Result<FileEntry> Folder::entry(const std::string& path) const {
  const Result<std::string> tidy = tidy_path(path);
  if (!tidy) {
    return tidy.failure();
  }
  const Result<Fd> file = open_beneath(tidy.value(), O_PATH);
  if (!file) {
    return file.failure();
  }
  struct stat info {};
  if (fstat(file.value().get(), &info) != 0) {
    return path_failure(path, errno);
  }
  return entry_of(tidy.value(), info);
}

Result<std::vector<std::string>> Folder::list(const std::string& path) const {
  const Result<std::string> tidy = tidy_path(path);
  if (!tidy) {
    return tidy.failure();
  }
  Result<Fd> fd = open_beneath(tidy.value(), O_RDONLY | O_DIRECTORY);
  if (!fd) {
    return fd.failure();
  }
  DIR* stream = fdopendir(fd->release());
  if (stream == nullptr) {
    return path_failure(path, errno);
  }
  const Defer close_stream([stream] { closedir(stream); });
  std::vector<std::string> names;
  while (const dirent* item = readdir(stream)) {
    const std::string name = item->d_name;
    struct stat info {};
    if (name == "." || name == ".." || fstatat(dirfd(stream), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    const char* kind = S_ISDIR(info.st_mode)   ? "folder "
                       : S_ISREG(info.st_mode) ? "file "
                       : S_ISLNK(info.st_mode) ? "link "
                                               : "other ";
    names.push_back(kind + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<FileEntry>> Folder::files(const std::string& under, size_t most) const {
  const Result<std::string> top = tidy_path(under);
  if (!top) {
    return top.failure();
  }
  std::vector<FileEntry> found;
  std::vector<std::string> open{top.value()};
  size_t seen = 0;
  while (!open.empty()) {
    const std::string folder = open.back();
    open.pop_back();
    Result<Fd> fd = open_beneath(folder, O_RDONLY | O_DIRECTORY);
    if (!fd) {
      if (folder == top.value()) {
        return fd.failure();
      }
      continue;  // it vanished, or became a link, while we looked
    }
    DIR* stream = fdopendir(fd->release());
    if (stream == nullptr) {
      return path_failure(folder, errno);
    }
    const Defer close_stream([stream] { closedir(stream); });
    while (const dirent* item = readdir(stream)) {
      const std::string name = item->d_name;
      struct stat info {};
      if (name == "." || name == ".." || fstatat(dirfd(stream), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;
      }
      if (++seen > 2 * most || found.size() > most) {
        return Failure{"more than " + std::to_string(most) + " files", "limit"};
      }
      if (S_ISDIR(info.st_mode)) {
        open.push_back(joined(folder, name));
      } else if (S_ISREG(info.st_mode)) {
        found.push_back(entry_of(joined(folder, name), info));
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  return found;
}

}  // namespace khost::sandbox
