// A descriptor that closes itself, and failures of system calls.
#pragma once

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "host/base/result.h"

namespace khost::sandbox {

class [[nodiscard]] Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) {
      close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_ = -1;
};

// "call argument: reason of errno"
inline Failure system_failure(const std::string& call, const std::string& code = "io") {
  return Failure{call + ": " + strerror(errno), code};
}

}  // namespace khost::sandbox
