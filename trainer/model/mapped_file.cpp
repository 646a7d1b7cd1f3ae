#include "trainer/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host/base/defer.h"

namespace khost::trainer {

MappedFile::MappedFile(MappedFile&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)), length_(std::exchange(other.length_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(map_, other.map_);
  std::swap(length_, other.length_);
  return *this;
}

MappedFile::~MappedFile() {
  if (map_ != nullptr) {
    munmap(map_, length_);
  }
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
  if (fd < 0) {
    return Failure{"open " + path + ": " + std::strerror(errno), "io"};
  }
  const Defer closing([fd] { ::close(fd); });
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return Failure{"stat " + path + ": " + std::strerror(errno), "io"};
  }
  if (!S_ISREG(info.st_mode)) {
    return Failure{path + " is no regular file", "bad_input"};
  }
  MappedFile file;
  if (info.st_size == 0) {
    return file;  // an empty mapping is an error of its own
  }
  void* map = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) {
    return Failure{"mmap " + path + ": " + std::strerror(errno), "io"};
  }
  file.map_ = map;
  file.length_ = static_cast<size_t>(info.st_size);
  return file;
}

}  // namespace khost::trainer
