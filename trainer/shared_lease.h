// The device lease, where one is configured: taken shared around each short piece of work.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "host/base/lease.h"

namespace khost::trainer {

class SharedLease {
 public:
  static Result<SharedLease> open(const std::string& path) {
    SharedLease made;
    if (!path.empty()) {
      Result<Lease> lease = Lease::open(path);
      if (!lease) {
        return lease.failure();
      }
      made.lease_.emplace(std::move(lease).value());
    }
    return made;
  }

  template <class F>
  void hold(F work) {
    std::optional<Lease::Guard> guard;
    if (lease_) {
      guard.emplace(lease_->acquire(Lease::Mode::shared));
    }
    work();
  }

 private:
  std::optional<Lease> lease_;
};

}  // namespace khost::trainer
