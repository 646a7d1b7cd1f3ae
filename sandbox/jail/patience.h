// A time limit of work that a Quiet of this process stops: only time in which nothing was stopped counts, since nobody
// can use any other. Any thread.
#pragma once

#include <chrono>

namespace khost::sandbox {

class Patience {
 public:
  explicit Patience(double seconds);
  // Seconds, none or fewer when it is over. Whoever waits so long looks again: there may be more by then. At most ten
  // minutes are added in all, so that every wait has an end.
  double left_s() const;
  bool over() const { return left_s() <= 0; }
  // The same for poll, rounded up.
  int left_ms() const;

 private:
  double seconds_, stood_s_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace khost::sandbox
