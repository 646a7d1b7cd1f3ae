// The few calls of the CUDA driver that the judge and its subjects share, found at run time: the programs start where
// there is no GPU and say so. Loaded once; any thread.
#pragma once

#include <cuda.h>

#include <string>

#include "host/base/result.h"

namespace khost::sandbox {

struct Driver {
  decltype(&cuInit) init;
  decltype(&cuGetErrorString) error_string;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDeviceGetAttribute) device_attribute;
  decltype(&cuDevicePrimaryCtxRetain) retain_context;
  decltype(&cuCtxSetCurrent) set_context;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemExportToShareableHandle) export_handle;
  decltype(&cuMemImportFromShareableHandle) import_handle;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) unreserve;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAlloc) allocate;
  decltype(&cuMemHostRegister) host_register;
  decltype(&cuMemHostUnregister) host_unregister;
  decltype(&cuMemHostGetDevicePointer) host_pointer;
  decltype(&cuStreamCreateWithPriority) stream_create;
  decltype(&cuStreamSynchronize) stream_synchronize;
  decltype(&cuStreamQuery) stream_query;
  decltype(&cuStreamWaitValue32) stream_wait;
  decltype(&cuStreamWriteValue32) stream_write;
  decltype(&cuCtxSynchronize) synchronize;
  decltype(&cuStreamIsCapturing) is_capturing;
  std::string path;  // of libcuda

  std::string text(CUresult result) const;
};

// host when there is no driver or it is too old, naming what is missing.
Result<const Driver*> driver();

// Initialises the driver and makes the device's primary context current in this thread.
Status use_device(int ordinal);

// Device memory of this size on exportable handles. `fd` below 0: new memory of this process, whose descriptor
// export_memory() gives; else the memory behind the descriptor, which stays open. Sizes are multiples of
// granularity_of(). The context must be current.
struct SharedMemory {
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
};
Result<SharedMemory> map_memory(std::size_t bytes, int fd = -1);
Result<int> export_memory(const SharedMemory& memory);
void unmap_memory(SharedMemory& memory);
Result<std::size_t> granularity_of();

}  // namespace khost::sandbox
