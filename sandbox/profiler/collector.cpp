// libkhost_profiler.so: loaded into a process to be profiled, where it asks CUPTI for the activities of the device and
// writes them to the shared page (page.h). It runs beside the candidate and in its power: what it reports is the
// candidate's word. CUPTI is found at run time. All calls from one thread; CUPTI may hand over records in another.
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "sandbox/profiler/page.h"

using namespace khost::profiler;

#define KHOST_VISIBLE extern "C" __attribute__((visibility("default")))

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

struct Cupti {
  decltype(&cuptiGetVersion) version;
  decltype(&cuptiActivityRegisterCallbacks) callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped;
  decltype(&cuptiGetResultString) text;
};

Cupti cupti{};
std::byte* page = nullptr;
std::atomic<std::uint32_t> current{0};  // the call that records belong to; 0: none, they are dropped
std::mutex names_mutex;
std::map<std::string, std::uint32_t> names;
std::size_t name_bytes = 0;

PageHeader& header() {
  return *reinterpret_cast<PageHeader*>(page);
}

int fail(const std::string& why) {
  std::snprintf(header().message, sizeof header().message, "%s", why.c_str());
  header().failed = 1;
  return 1;
}

// Offset of the readable form of a name; that of the empty text when there is no room. Demangling happens here and not
// in the judge, which does not feed a candidate's texts to a parser of that kind.
std::uint32_t name_of(const char* mangled) {
  int status = 0;
  char* readable = mangled != nullptr ? abi::__cxa_demangle(mangled, nullptr, nullptr, &status) : nullptr;
  const std::string name(std::string(readable != nullptr  ? readable
                                     : mangled != nullptr ? mangled
                                                          : "")
                             .substr(0, kLongestName - 1));
  std::free(readable);
  const std::scoped_lock lock(names_mutex);
  const auto found = names.find(name);
  if (found != names.end()) {
    return found->second;
  }
  if (name_bytes + name.size() + 1 > kNameBytes) {
    return 0;
  }
  const auto offset = static_cast<std::uint32_t>(name_bytes);
  std::memcpy(page + kNamesOffset + offset, name.c_str(), name.size() + 1);
  name_bytes += name.size() + 1;
  names[name] = offset;
  return offset;
}

void put(const PageRecord& record) {
  const std::uint32_t at = header().records.fetch_add(1, std::memory_order_relaxed);
  if (at < kMostRecords) {
    std::memcpy(page + kRecordsOffset + at * sizeof record, &record, sizeof record);
  }
}

template <class Moved>
PageRecord moved(const CUpti_Activity* activity, Activity kind, const char* name, std::uint32_t call) {
  const auto* from = reinterpret_cast<const Moved*>(activity);
  PageRecord record{};
  record.activity = static_cast<std::uint32_t>(kind);
  record.call = call;
  record.start_ns = from->start;
  record.end_ns = from->end;
  record.bytes = from->bytes;
  record.name = name_of(name);
  return record;
}

PageRecord kernel(const CUpti_Activity* activity, std::uint32_t call) {
  const auto* from = reinterpret_cast<const CUpti_ActivityKernel10*>(activity);
  PageRecord record{};
  record.activity = static_cast<std::uint32_t>(Activity::kernel);
  record.call = call;
  record.start_ns = from->start;
  record.end_ns = from->end;
  const std::int32_t grid[3] = {from->gridX, from->gridY, from->gridZ};
  const std::int32_t block[3] = {from->blockX, from->blockY, from->blockZ};
  for (int i = 0; i < 3; i++) {
    record.grid[i] = static_cast<std::uint32_t>(grid[i]);
    record.block[i] = static_cast<std::uint32_t>(block[i]);
  }
  record.registers = from->registersPerThread;
  record.static_shared = static_cast<std::uint32_t>(from->staticSharedMemory);
  record.dynamic_shared = static_cast<std::uint32_t>(from->dynamicSharedMemory);
  record.name = name_of(from->name);
  return record;
}

void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::uint32_t call = current.load(std::memory_order_acquire);
  CUpti_Activity* activity = nullptr;
  while (call != 0 && valid > 0 && cupti.next(buffer, valid, &activity) == CUPTI_SUCCESS) {
    switch (activity->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      case CUPTI_ACTIVITY_KIND_KERNEL:
        put(kernel(activity, call));
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        put(moved<CUpti_ActivityMemcpy6>(activity, Activity::copy, "[copy]", call));
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        put(moved<CUpti_ActivityMemset4>(activity, Activity::fill, "[fill]", call));
        break;
      default:
        break;
    }
  }
  std::size_t lost = 0;
  if (call != 0 && cupti.dropped(context, stream, &lost) == CUPTI_SUCCESS) {
    header().dropped.fetch_add(static_cast<std::uint32_t>(lost), std::memory_order_relaxed);
  }
  std::free(buffer);
}

template <class F>
bool find(void* library, F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// `memory`: kPageBytes, zero. `library`: CUPTI's path or name. Before the process uses the device, so that CUPTI sees
// it from the start. 0, or 1 with the reason in the page; the other calls then do nothing.
KHOST_VISIBLE int khost_profile_open(void* memory, const char* library) {
  page = static_cast<std::byte*>(memory);
  header().magic = kMagic;
  names.clear();
  name_bytes = 0;
  name_of("");  // offset 0
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = dlerror();
    return fail(std::string("CUPTI does not load: ") + (why != nullptr ? why : library));
  }
  if (!find(loaded, cupti.version, "cuptiGetVersion") ||
      !find(loaded, cupti.callbacks, "cuptiActivityRegisterCallbacks") ||
      !find(loaded, cupti.enable, "cuptiActivityEnable") || !find(loaded, cupti.flush, "cuptiActivityFlushAll") ||
      !find(loaded, cupti.next, "cuptiActivityGetNextRecord") ||
      !find(loaded, cupti.dropped, "cuptiActivityGetNumDroppedRecords") ||
      !find(loaded, cupti.text, "cuptiGetResultString")) {
    return fail("this CUPTI lacks calls of the Activity API");
  }
  // Records only grow at their end within a major version.
  std::uint32_t version = 0;
  if (cupti.version(&version) != CUPTI_SUCCESS || version / 10000 != CUPTI_API_VERSION / 10000) {
    return fail("CUPTI of version " + std::to_string(version) + "; this program was built for " +
                std::to_string(CUPTI_API_VERSION));
  }
  CUptiResult result = cupti.callbacks(requested, completed);
  for (const CUpti_ActivityKind kind : kKinds) {
    result = result == CUPTI_SUCCESS ? cupti.enable(kind) : result;
  }
  if (result != CUPTI_SUCCESS) {
    const char* why = nullptr;
    cupti.text(result, &why);
    return fail("CUPTI: " + std::string(why != nullptr ? why : std::to_string(result)));
  }
  return 0;
}

// What is launched from here on belongs to `call`, 1 or more. The device must be idle.
KHOST_VISIBLE void khost_profile_begin(std::uint32_t call) {
  if (page != nullptr && header().failed == 0) {
    cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);  // what came before belongs to nobody
    current.store(call, std::memory_order_release);
  }
}

// The call is over and the device idle again: its records are in the page when this returns.
KHOST_VISIBLE void khost_profile_end() {
  if (page != nullptr && header().failed == 0) {
    cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    current.store(0, std::memory_order_release);
  }
}
