#include "host/base/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace khost {
namespace {

void lock(int fd, int operation) {
  while (flock(fd, operation) != 0 && errno == EINTR) {
  }
}

int open_lock(const std::string& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

}  // namespace

Lease::Guard::Guard(Guard&& other) noexcept : device_(std::exchange(other.device_, -1)) {}

Lease::Guard::~Guard() {
  if (device_ >= 0) {
    lock(device_, LOCK_UN);
  }
}

Result<Lease> Lease::open(const std::string& path) {
  const int gate = open_lock(path + ".gate");
  const int device = open_lock(path);
  if (gate < 0 || device < 0) {
    const Failure failure{"open " + path + ": " + std::strerror(errno), "io"};
    ::close(gate);
    ::close(device);
    return failure;
  }
  return Lease(gate, device);
}

Lease::Lease(Lease&& other) noexcept
    : gate_(std::exchange(other.gate_, -1)), device_(std::exchange(other.device_, -1)) {}

Lease::~Lease() {
  if (gate_ >= 0) {
    ::close(gate_);
    ::close(device_);
  }
}

Lease::Guard Lease::acquire(Mode mode) {
  const int operation = mode == Mode::exclusive ? LOCK_EX : LOCK_SH;
  lock(gate_, operation);
  lock(device_, operation);
  lock(gate_, LOCK_UN);
  return Guard(device_);
}

}  // namespace khost
