#include "sandbox/profiler/trace.h"

#include <string.h>

#include <algorithm>

namespace khost::profiler {
namespace {

// A byte that is not printable would be an escape for the terminal, or no UTF-8.
std::string text_at(const std::byte* from, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < most; i++) {
    const char c = static_cast<char>(from[i]);
    if (c == '\0') {
      break;
    }
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

// What no GPU does: a block of more than 1,024 threads, a call of hours.
constexpr std::uint64_t kMostThreads = 1024;
constexpr std::uint64_t kLongest_ns = 3600ull * 1000000000ull;
constexpr std::uint32_t kMostRegisters = 1024;
constexpr std::uint32_t kMostShared = 1u << 24;

bool sound(const PageRecord& r) {
  if (r.call == 0 || r.end_ns < r.start_ns || r.end_ns - r.start_ns > kLongest_ns || r.name >= kNameBytes) {
    return false;
  }
  switch (static_cast<Activity>(r.activity)) {
    case Activity::copy:
    case Activity::fill:
      return true;
    case Activity::kernel:
      break;
    default:
      return false;
  }
  for (int i = 0; i < 3; i++) {
    if (r.grid[i] == 0 || r.grid[i] > 0x7fffffffu || r.block[i] == 0 || r.block[i] > kMostThreads) {
      return false;
    }
  }
  return std::uint64_t{r.block[0]} * r.block[1] * r.block[2] <= kMostThreads && r.registers <= kMostRegisters &&
         r.static_shared <= kMostShared && r.dynamic_shared <= kMostShared;
}

}  // namespace

Result<Trace> read_trace(const std::byte* page, std::size_t bytes) {
  if (bytes != kPageBytes) {
    return Failure{"a profile's page has " + std::to_string(bytes) + " bytes", "bad_input"};
  }
  const auto* header = reinterpret_cast<const PageHeader*>(page);
  std::uint32_t magic = 0, failed = 0;
  memcpy(&magic, page + offsetof(PageHeader, magic), sizeof magic);
  memcpy(&failed, page + offsetof(PageHeader, failed), sizeof failed);
  if (magic != kMagic) {
    return Failure{"the profiler was not started in the process", "bad_input"};
  }
  if (failed != 0) {
    return Failure{text_at(page + offsetof(PageHeader, message), sizeof header->message), "host"};
  }
  const std::uint32_t claimed = header->records.load(std::memory_order_acquire);
  Trace trace;
  const std::uint32_t count = std::min(claimed, kMostRecords);
  trace.dropped = std::uint64_t{header->dropped.load(std::memory_order_relaxed)} + (claimed - count);
  trace.records.reserve(count);
  for (std::uint32_t i = 0; i < count; i++) {
    PageRecord r;  // a copy: what is checked is what is used
    memcpy(&r, page + kRecordsOffset + i * sizeof r, sizeof r);
    if (!sound(r)) {
      trace.malformed++;
      continue;
    }
    TraceRecord record;
    record.activity = static_cast<Activity>(r.activity);
    record.call = r.call;
    record.start_ns = r.start_ns;
    record.end_ns = r.end_ns;
    record.name = text_at(page + kNamesOffset + r.name, std::min<std::size_t>(kLongestName, kNameBytes - r.name));
    if (record.activity == Activity::kernel) {
      record.grid = {r.grid[0], r.grid[1], r.grid[2]};
      record.block = {r.block[0], r.block[1], r.block[2]};
      record.registers = r.registers;
      record.static_shared = r.static_shared;
      record.dynamic_shared = r.dynamic_shared;
    } else {
      record.bytes = r.bytes;
    }
    trace.records.push_back(std::move(record));
  }
  return trace;
}

}  // namespace khost::profiler
