#include "sandbox/judge/cpu/bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "sandbox/judge/cpu/clock.h"

namespace khost::judge {
namespace {

constexpr int kTries = 8;
constexpr std::size_t kLanes = 64;  // independent sums: the additions must not be what is measured

std::uint64_t sum_of(const std::vector<std::uint64_t>& words) {
  std::uint64_t lanes[kLanes] = {};
  for (std::size_t i = 0; i + kLanes <= words.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; lane++) {
      lanes[lane] += words[i + lane];
    }
  }
  std::uint64_t total = 0;
  for (const std::uint64_t lane : lanes) {
    total += lane;
  }
  return total;
}

double best_read_s(std::vector<std::uint64_t>& words) {
  double best = 1e9;
  volatile std::uint64_t sink = 0;
  for (int i = 0; i < kTries; i++) {
    std::fill(words.begin(), words.end(), static_cast<std::uint64_t>(i));
    const auto begin = std::chrono::steady_clock::now();
    sink = sink + sum_of(words);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

double measure_read_rate(std::size_t bytes, int core) {
  double rate = 0;
  std::thread reader([&] {
    pin_thread(core);
    try {
      std::vector<std::uint64_t> words(std::max(bytes / sizeof(std::uint64_t), kLanes));
      rate = static_cast<double>(words.size() * sizeof(std::uint64_t)) / best_read_s(words);
    } catch (const std::bad_alloc&) {
    }
  });
  reader.join();
  return rate;
}

}  // namespace khost::judge
