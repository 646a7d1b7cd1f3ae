#include "sandbox/judge/task/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace khost::judge {

using sandbox::Fd;
using sandbox::system_failure;

Result<Region> Region::copy_of(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0) {
    return system_failure("open " + path);
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  Result<Region> region = make("library", size, Others::read);
  for (std::size_t at = 0; region && at < size;) {
    const ssize_t n = pread(file.get(), region->data() + at, size - at, static_cast<off_t>(at));
    if (n <= 0) {
      return system_failure("read " + path);
    }
    at += static_cast<std::size_t>(n);
  }
  return region;
}

Result<Region> Region::make(const std::string& name, std::size_t bytes, Others others) {
  Region region;
  region.fd_ = Fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!region.fd_ || ftruncate(region.fd_.get(), static_cast<off_t>(bytes)) != 0) {
    return system_failure("memfd of " + std::to_string(bytes) + " bytes");
  }
  if (bytes > 0) {
    // Pages are charged to whoever touches them first, and to that group for as long as they exist: left to a jail's
    // child, what the judge keeps would use up the jail's memory.
    if (fallocate(region.fd_.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
      return system_failure(std::to_string(bytes) + " bytes of memory");
    }
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd_.get(), 0);
    if (base == MAP_FAILED) {
      return system_failure("mmap of " + std::to_string(bytes) + " bytes");
    }
    region.base_ = static_cast<std::byte*>(base);
    region.bytes_ = bytes;
  }
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (others == Others::read ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(region.fd_.get(), F_ADD_SEALS, seals) != 0) {
    return system_failure("F_ADD_SEALS");
  }
  return region;
}

Region::Region(Region&& other) noexcept
    : fd_(std::move(other.fd_)), base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Region::close_file() {
  fd_.reset();
}

Region::~Region() {
  if (base_ != nullptr) {
    munmap(base_, bytes_);
  }
}

}  // namespace khost::judge
