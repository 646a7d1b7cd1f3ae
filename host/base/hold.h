// The only right to write a folder: a lock on a file in it, kept as long as the object lives. A process that is killed
// gives it up at once.
#pragma once

#include <string>
#include <utility>

#include "host/base/result.h"

namespace khost {

class Hold {
 public:
  Hold() = default;  // holds nothing
  // Creates the file where there is none. `what` names what it is for. Codes: "busy" when another object or process
  // holds it, "io" when it cannot be opened or locked.
  static Result<Hold> take(const std::string& path, const std::string& what);
  Hold(Hold&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Hold& operator=(Hold&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Hold();

  explicit operator bool() const { return file_ >= 0; }

 private:
  explicit Hold(int file) : file_(file) {}
  int file_ = -1;
};

}  // namespace khost
