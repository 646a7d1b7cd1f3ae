// The memory through which a profiled process hands its kernel records to the judge: a header, records, names. The
// process can write all of it, so the judge copies and checks what it reads (trace.h). One writer, which claims a
// record before it fills it. Sizes are bytes, times nanoseconds of CUPTI's clock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace khost::profiler {

inline constexpr std::uint32_t kMagic = 0x6b70726fu;
inline constexpr std::uint32_t kMostRecords = 1u << 15;
inline constexpr std::size_t kNameBytes = std::size_t{1} << 19;
inline constexpr std::size_t kLongestName = 512;

enum class Activity : std::uint32_t { kernel = 1, copy = 2, fill = 3 };

struct PageHeader {
  std::uint32_t magic;
  std::uint32_t failed;                // 1: nothing is recorded, `message` says why
  std::atomic<std::uint32_t> records;  // claimed; more than kMostRecords when there was no room
  std::atomic<std::uint32_t> dropped;  // by CUPTI, which had no room
  char message[256];                   // may lack its end
};

struct PageRecord {
  std::uint32_t activity;
  std::uint32_t call;  // as khost_profile_begin was told
  std::uint64_t start_ns, end_ns;
  std::uint32_t grid[3], block[3];
  std::uint32_t registers;  // of a thread
  std::uint32_t static_shared, dynamic_shared;
  std::uint32_t name;   // offset of a text with an end in the names
  std::uint64_t bytes;  // of a copy or fill
};
static_assert(sizeof(PageRecord) == 72);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::size_t kRecordsOffset = 512;
inline constexpr std::size_t kNamesOffset = kRecordsOffset + kMostRecords * sizeof(PageRecord);
inline constexpr std::size_t kPageBytes = kNamesOffset + kNameBytes;
static_assert(sizeof(PageHeader) <= kRecordsOffset);

}  // namespace khost::profiler
