// The records of a profiled process, read by the judge. Nothing in the page is believed: every number has bounds, every
// text an end. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/profiler/page.h"

namespace khost::profiler {

struct TraceRecord {
  Activity activity = Activity::kernel;
  std::uint32_t call = 0;
  std::uint64_t start_ns = 0, end_ns = 0;  // start <= end
  std::array<std::uint32_t, 3> grid{}, block{};
  std::uint32_t registers = 0;
  std::uint64_t static_shared = 0, dynamic_shared = 0;  // bytes of a block
  std::uint64_t bytes = 0;                              // of a copy or fill
  std::string name;                                     // printable ASCII
};

struct Trace {
  std::vector<TraceRecord> records;
  std::uint64_t dropped = 0;    // had no room
  std::uint64_t malformed = 0;  // are no records of a device: the process wrote something else there
};

// `page` may change while it is read. `bytes` must be kPageBytes. Failures: host (CUPTI is missing or refuses, with its
// words), bad_input (the page was never set up).
Result<Trace> read_trace(const std::byte* page, std::size_t bytes);

}  // namespace khost::profiler
