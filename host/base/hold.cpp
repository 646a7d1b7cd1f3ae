#include "host/base/hold.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace khost {

Result<Hold> Hold::take(const std::string& path, const std::string& what) {
  Hold hold(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!hold) {
    return Failure{"cannot open '" + path + "': " + strerror(errno), "io"};
  }
  if (flock(hold.file_, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Failure{"another process is writing " + what, "busy"}
                                : Failure{"cannot lock '" + path + "': " + strerror(errno), "io"};
  }
  return hold;
}

Hold::~Hold() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

}  // namespace khost
