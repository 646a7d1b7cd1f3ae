#include "sandbox/judge/cpu/bandwidth.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

using khost::judge::measure_read_rate;

namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

// Bytes a second of a loop that a compiler may not widen: each addition waits for the one before.
double rate_of_one_sum() {
  std::vector<std::uint64_t> words(kBytes / sizeof(std::uint64_t));
  double best = 0;
  volatile std::uint64_t sink = 0;
  for (int i = 0; i < 8; i++) {
    std::fill(words.begin(), words.end(), static_cast<std::uint64_t>(i));
    const auto begin = std::chrono::steady_clock::now();
    for (const std::uint64_t word : words) {
      sink = sink + word;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, static_cast<double>(kBytes) / seconds);
  }
  return best;
}

}  // namespace

TEST_CASE("a machine reads faster than a chain of additions and slower than a cache's wires") {
  const double rate = measure_read_rate(kBytes, 0);
  CHECK(rate > 2 * rate_of_one_sum());
  CHECK(rate < 1e12);
}

TEST_CASE("a few words are read too") {
  CHECK(measure_read_rate(1, 0) > 0);
}
