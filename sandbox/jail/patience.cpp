#include "sandbox/jail/patience.h"

#include <algorithm>
#include <cmath>

#include "sandbox/jail/quiet.h"

namespace khost::sandbox {

namespace {
constexpr double kMostAdded_s = 600;
}  // namespace

Patience::Patience(double seconds)
    : seconds_(seconds), stood_s_(Quiet::stood_s()), begin_(std::chrono::steady_clock::now()) {}

double Patience::left_s() const {
  // First what stood: a moment less is added then, and not one more.
  const double added = std::min(Quiet::stood_s() - stood_s_, kMostAdded_s);
  return seconds_ + added - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

int Patience::left_ms() const {
  return static_cast<int>(std::ceil(std::clamp(left_s() * 1000, 0.0, 1e9)));
}

}  // namespace khost::sandbox
