#include "sandbox/judge/cpu/bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "sandbox/judge/cpu/clock.h"

namespace khost::judge {
namespace {

constexpr int kTries = 8;
constexpr std::size_t kLanes = 32;  // independent sums of a stream: the additions must not be what is measured
constexpr std::size_t kMostStreams = 4;

// Reads the words as so many streams side by side. One stream is fastest out of a cache, several out of memory.
template <std::size_t streams>
__attribute__((always_inline)) inline std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t kEach = kLanes / streams;
  const std::size_t length = count / streams;
  std::uint64_t lanes[streams][kEach] = {};
  for (std::size_t i = 0; i + kEach <= length; i += kEach) {
    for (std::size_t stream = 0; stream < streams; stream++) {
      for (std::size_t lane = 0; lane < kEach; lane++) {
        lanes[stream][lane] += words[stream * length + i + lane];
      }
    }
  }
  std::uint64_t total = 0;
  for (const auto& stream : lanes) {
    total = std::accumulate(std::begin(stream), std::end(stream), total);
  }
  return total;
}

using Reader = std::uint64_t (*)(const std::uint64_t*, std::size_t);

std::uint64_t one_stream(const std::uint64_t* words, std::size_t count) {
  return sum_of<1>(words, count);
}

std::uint64_t many_streams(const std::uint64_t* words, std::size_t count) {
  return sum_of<kMostStreams>(words, count);
}

#if defined(__x86_64__)
// Candidates are compiled for the machine that they run on, and this program is not.
__attribute__((target("avx2"))) std::uint64_t one_wide_stream(const std::uint64_t* words, std::size_t count) {
  return sum_of<1>(words, count);
}

__attribute__((target("avx2"))) std::uint64_t many_wide_streams(const std::uint64_t* words, std::size_t count) {
  return sum_of<kMostStreams>(words, count);
}
#endif

std::vector<Reader> readers() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    return {one_wide_stream, many_wide_streams};
  }
#endif
  return {one_stream, many_streams};
}

double best_read_s(std::vector<std::uint64_t>& words) {
  double best = 1e9;
  volatile std::uint64_t sink = 0;
  for (const Reader read : readers()) {
    for (int i = 0; i < kTries; i++) {
      std::fill(words.begin(), words.end(), static_cast<std::uint64_t>(i));
      const auto begin = std::chrono::steady_clock::now();
      sink = sink + read(words.data(), words.size());
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
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
