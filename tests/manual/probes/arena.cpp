// A torch allocator over one range of exportable device memory, as the judge would hand it to a Python subject.
#include <cuda.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

namespace {
std::mutex lock;
CUdeviceptr base = 0;
size_t size = 0, used = 0, peak = 0, calls = 0;
std::map<size_t, size_t> gaps;  // offset -> bytes
std::map<CUdeviceptr, size_t> taken;
}  // namespace

extern "C" {
// Reserves and maps the range; returns its address or 0.
uint64_t arena_open(size_t bytes) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle;
  CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (cuMemCreate(&handle, bytes, &prop, 0) || cuMemAddressReserve(&base, bytes, 0, 0, 0) ||
      cuMemMap(base, bytes, 0, handle, 0) || cuMemSetAccess(base, bytes, &desc, 1))
    return 0;
  gaps = {{0, size = bytes}};
  return base;
}
size_t arena_used() {
  return used;
}
size_t arena_peak() {
  return peak;
}
size_t arena_calls() {
  return calls;
}

// What a graph capture allocates is touched again by every replay, so it must never be handed out twice.
int arena_keep_captured = 1;

void* arena_alloc(ssize_t bytes, int, void* stream) {
  std::lock_guard guard(lock);
  calls++;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  cuStreamIsCapturing(static_cast<CUstream>(stream), &capturing);
  const size_t need = (std::max<size_t>(bytes, 1) + 511) / 512 * 512;
  for (auto [offset, room] : gaps)
    if (room >= need) {
      gaps.erase(offset);
      if (room > need)
        gaps[offset + need] = room - need;
      if (capturing == CU_STREAM_CAPTURE_STATUS_NONE || !arena_keep_captured)
        taken[base + offset] = need;
      if ((used += need) > peak)
        peak = used;
      return reinterpret_cast<void*>(base + offset);
    }
  throw std::bad_alloc();  // torch takes a null pointer for memory
}

void arena_free(void* pointer, ssize_t, int, void*) {
  std::lock_guard guard(lock);
  const auto it = taken.find(reinterpret_cast<CUdeviceptr>(pointer));
  if (it == taken.end())
    return;
  auto gap = gaps.emplace(it->first - base, it->second).first;
  used -= it->second;
  taken.erase(it);
  if (auto next = std::next(gap); next != gaps.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps.erase(next);
  }
  if (gap != gaps.begin())
    if (auto before = std::prev(gap); before->first + before->second == gap->first) {
      before->second += gap->second;
      gaps.erase(gap);
    }
}
}
