// A uid that nobody else on this machine uses while the lease lives: one lock file per uid of a reserved range,
// held by flock, so that concurrent khost processes and crashed ones need no further bookkeeping. Root only.
#pragma once

#include <sys/types.h>

#include <memory>

#include "host/base/result.h"

namespace khost::sandbox {

inline constexpr uid_t kFirstUid = 200000;
inline constexpr uid_t kUidCount = 4096;

class UidLease {
  struct Acquired {
    uid_t uid;
    int lock;
  };

 public:
  static Result<std::shared_ptr<const UidLease>> acquire();
  explicit UidLease(Acquired acquired) : uid_(acquired.uid), lock_(acquired.lock) {}
  UidLease(const UidLease&) = delete;
  UidLease& operator=(const UidLease&) = delete;
  ~UidLease();

  uid_t uid() const { return uid_; }
  int lock_fd() const { return lock_; }

 private:
  uid_t uid_;
  int lock_;
};

}  // namespace khost::sandbox
