#include "sandbox/jail/uid_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace khost::sandbox {
namespace {

constexpr const char* kFolder = "/run/khost-uids";

// Processes begin at different places of the range, so that they seldom meet at a lock.
uid_t next_offset() {
  static std::atomic<uid_t> next{static_cast<uid_t>(getpid()) * 61};
  return next++ % kUidCount;
}

}  // namespace

Result<std::shared_ptr<const UidLease>> UidLease::acquire() {
  if (mkdir(kFolder, 0700) != 0 && errno != EEXIST) {
    return Failure{std::string("mkdir ") + kFolder + ": " + strerror(errno), "io"};
  }
  for (uid_t tries = 0; tries < kUidCount; ++tries) {
    const uid_t uid = kFirstUid + next_offset();
    const std::string path = std::string(kFolder) + "/" + std::to_string(uid);
    const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0) {
      return Failure{"open " + path + ": " + strerror(errno), "io"};
    }
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
      return std::make_shared<const UidLease>(Acquired{uid, lock});
    }
    close(lock);
  }
  return Failure{"all " + std::to_string(kUidCount) + " uids for jails are in use", "busy"};
}

UidLease::~UidLease() {
  close(lock_);
}

}  // namespace khost::sandbox
