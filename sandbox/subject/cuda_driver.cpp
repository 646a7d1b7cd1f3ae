#include "sandbox/subject/cuda_driver.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <mutex>

namespace khost::sandbox {
namespace {

// cuda.h renames calls to their versions; the second expansion sees the name that the library has.
#define KHOST_NAME_OF(name) #name
#define KHOST_VERSIONED(name) KHOST_NAME_OF(name)

Status load(Driver& table) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Failure{"there is no NVIDIA driver (libcuda.so.1)", "host"};
  }
  std::string missing;
  const auto find = [&](auto& slot, const char* name) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
    if (slot == nullptr) {
      missing = name;
    }
  };
  find(table.init, KHOST_VERSIONED(cuInit));
  find(table.error_string, KHOST_VERSIONED(cuGetErrorString));
  find(table.device_get, KHOST_VERSIONED(cuDeviceGet));
  find(table.device_attribute, KHOST_VERSIONED(cuDeviceGetAttribute));
  find(table.retain_context, KHOST_VERSIONED(cuDevicePrimaryCtxRetain));
  find(table.set_context, KHOST_VERSIONED(cuCtxSetCurrent));
  find(table.create, KHOST_VERSIONED(cuMemCreate));
  find(table.release, KHOST_VERSIONED(cuMemRelease));
  find(table.export_handle, KHOST_VERSIONED(cuMemExportToShareableHandle));
  find(table.import_handle, KHOST_VERSIONED(cuMemImportFromShareableHandle));
  find(table.reserve, KHOST_VERSIONED(cuMemAddressReserve));
  find(table.unreserve, KHOST_VERSIONED(cuMemAddressFree));
  find(table.map, KHOST_VERSIONED(cuMemMap));
  find(table.unmap, KHOST_VERSIONED(cuMemUnmap));
  find(table.set_access, KHOST_VERSIONED(cuMemSetAccess));
  find(table.granularity, KHOST_VERSIONED(cuMemGetAllocationGranularity));
  find(table.allocate, KHOST_VERSIONED(cuMemAlloc));
  find(table.host_register, KHOST_VERSIONED(cuMemHostRegister));
  find(table.host_unregister, KHOST_VERSIONED(cuMemHostUnregister));
  find(table.host_pointer, KHOST_VERSIONED(cuMemHostGetDevicePointer));
  find(table.stream_create, KHOST_VERSIONED(cuStreamCreateWithPriority));
  find(table.stream_synchronize, KHOST_VERSIONED(cuStreamSynchronize));
  find(table.stream_query, KHOST_VERSIONED(cuStreamQuery));
  find(table.stream_wait, KHOST_VERSIONED(cuStreamWaitValue32));
  find(table.stream_write, KHOST_VERSIONED(cuStreamWriteValue32));
  find(table.synchronize, KHOST_VERSIONED(cuCtxSynchronize));
  find(table.is_capturing, KHOST_VERSIONED(cuStreamIsCapturing));
  if (!missing.empty()) {
    return Failure{"the NVIDIA driver is too old: it has no " + missing, "host"};
  }
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    table.path = map->l_name;
  }
  return ok();
}

CUmemAllocationProp properties() {
  CUmemAllocationProp result{};
  result.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  result.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  result.location.id = 0;
  result.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return result;
}

}  // namespace

std::string Driver::text(CUresult result) const {
  const char* words = nullptr;
  error_string(result, &words);
  return words != nullptr ? words : "CUDA error " + std::to_string(static_cast<int>(result));
}

Result<const Driver*> driver() {
  static Driver table;
  static const Status status = load(table);
  if (!status) {
    return status.failure();
  }
  return static_cast<const Driver*>(&table);
}

Status use_device(int ordinal) {
  Result<const Driver*> cuda = driver();
  if (!cuda) {
    return cuda.failure();
  }
  const Driver& d = **cuda;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult result = d.init(0);
  for (int step = 0; result == CUDA_SUCCESS && step < 3; step++) {
    result = step == 0   ? d.device_get(&device, ordinal)
             : step == 1 ? d.retain_context(&context, device)
                         : d.set_context(context);
  }
  if (result != CUDA_SUCCESS) {
    return Failure{"no context on GPU " + std::to_string(ordinal) + ": " + d.text(result), "host"};
  }
  return ok();
}

Result<std::size_t> granularity_of() {
  Result<const Driver*> cuda = driver();
  if (!cuda) {
    return cuda.failure();
  }
  const CUmemAllocationProp wanted = properties();
  std::size_t bytes = 0;
  const CUresult result = (*cuda)->granularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) {
    return Failure{"granularity of device memory: " + (*cuda)->text(result), "host"};
  }
  return bytes;
}

Result<SharedMemory> map_memory(std::size_t bytes, int fd) {
  Result<const Driver*> cuda = driver();
  if (!cuda) {
    return cuda.failure();
  }
  const Driver& d = **cuda;
  SharedMemory memory;
  const CUmemAllocationProp wanted = properties();
  CUresult result = fd < 0 ? d.create(&memory.handle, bytes, &wanted, 0)
                           : d.import_handle(&memory.handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) {
    result = d.reserve(&memory.base, bytes, 0, 0, 0);
  }
  if (result == CUDA_SUCCESS) {
    result = d.map(memory.base, bytes, 0, memory.handle, 0);
  }
  if (result == CUDA_SUCCESS) {
    memory.bytes = bytes;
    CUmemAccessDesc access{};
    access.location = wanted.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = d.set_access(memory.base, bytes, &access, 1);
  }
  if (result != CUDA_SUCCESS) {
    unmap_memory(memory);
    return Failure{std::to_string(bytes >> 20) + " MiB of device memory: " + d.text(result),
                   result == CUDA_ERROR_OUT_OF_MEMORY ? "limit" : "host"};
  }
  return memory;
}

Result<int> export_memory(const SharedMemory& memory) {
  Result<const Driver*> cuda = driver();
  if (!cuda) {
    return cuda.failure();
  }
  int fd = -1;
  const CUresult result = (*cuda)->export_handle(&fd, memory.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) {
    return Failure{"device memory cannot be exported: " + (*cuda)->text(result), "host"};
  }
  return fd;
}

void unmap_memory(SharedMemory& memory) {
  Result<const Driver*> cuda = driver();
  if (!cuda) {
    return;
  }
  if (memory.bytes > 0) {
    (*cuda)->unmap(memory.base, memory.bytes);
    (*cuda)->unreserve(memory.base, memory.bytes);
  }
  if (memory.handle != 0) {
    (*cuda)->release(memory.handle);
  }
  memory = {};
}

}  // namespace khost::sandbox
