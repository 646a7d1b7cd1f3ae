// What this device reaches at most where cuBLAS is not needed, and what a profile does to the caches before a call.
// Everything runs in the caller's context on its stream; the caller holds the device alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "sandbox/profiler/profile.h"

namespace khost::profiler {

// FLOP a second of fp32 fused multiply-adds on all multiprocessors, the best of a few runs of some milliseconds. Waits
// for the device; 0 when it fails.
double measure_fma(cudaStream_t stream, int multiprocessors);

// Reads so many bytes (a multiple of 16, larger than the L2 cache), so that nothing else is left in it. Only enqueues.
void read_through(cudaStream_t stream, int multiprocessors, const std::byte* memory, std::size_t bytes);

Limits limits_of(int device);

}  // namespace khost::profiler
