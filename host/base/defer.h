// Runs a lambda when the scope ends. Arm it before starting what it cleans up.
#pragma once

#include <utility>

namespace khost {

template <class F>
class [[nodiscard]] Defer {
 public:
  explicit Defer(F f) : f_(std::move(f)) {}
  Defer(const Defer&) = delete;
  Defer& operator=(const Defer&) = delete;
  ~Defer() {
    if (armed_) {
      f_();
    }
  }
  void dismiss() { armed_ = false; }

 private:
  F f_;
  bool armed_ = true;
};

}  // namespace khost
