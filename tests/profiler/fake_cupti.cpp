// Stands in for CUPTI where there is no GPU: the calls of the Activity API that the collector makes, over activities
// that a test puts. What it hands over has CUPTI's own layout.
#include <cupti.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
std::vector<CUpti_ActivityKernel10> kernels;
std::vector<CUpti_ActivityMemcpy6> copies;
std::uint32_t version = CUPTI_API_VERSION;
std::size_t lost = 0;

std::size_t bytes_of(const CUpti_Activity* activity) {
  return activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY ? sizeof(CUpti_ActivityMemcpy6) : sizeof(CUpti_ActivityKernel10);
}

template <class T>
std::size_t hand_over(std::uint8_t* to, std::vector<T>& list) {
  memcpy(to, list.data(), list.size() * sizeof(T));
  const std::size_t bytes = list.size() * sizeof(T);
  list.clear();
  return bytes;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(std::uint32_t* result) {
  *result = version;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "no error";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = lost;
  lost = 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** activity) {
  std::uint8_t* at = buffer;
  if (*activity != nullptr) {
    at = reinterpret_cast<std::uint8_t*>(*activity) + bytes_of(*activity);
  }
  if (at >= buffer + valid) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  *activity = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0, most = 0;
  request(&buffer, &bytes, &most);
  const std::size_t used = hand_over(buffer, kernels);
  complete(nullptr, 0, buffer, bytes, used + hand_over(buffer + used, copies));
  return CUPTI_SUCCESS;
}

void fake_kernel(const char* name, std::uint64_t start_ns, std::uint64_t end_ns) {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = start_ns;
  kernel.end = end_ns;
  kernel.gridX = 10;
  kernel.gridY = 2;
  kernel.gridZ = 1;
  kernel.blockX = 256;
  kernel.blockY = kernel.blockZ = 1;
  kernel.registersPerThread = 40;
  kernel.staticSharedMemory = 512;
  kernel.dynamicSharedMemory = 1024;
  kernel.name = name;
  kernels.push_back(kernel);
}

void fake_copy(std::uint64_t start_ns, std::uint64_t end_ns, std::uint64_t bytes) {
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.start = start_ns;
  copy.end = end_ns;
  copy.bytes = bytes;
  copies.push_back(copy);
}

void fake_loss(std::size_t count) {
  lost = count;
}

void fake_version(std::uint32_t wanted) {
  version = wanted;
}
}
