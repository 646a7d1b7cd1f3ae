// How memory is allocated in what the CPU's clock compares: a candidate gets its outputs in memory that is there, so a
// baseline must not pay for fresh pages in each call, and neither may depend on what its heap went through before.
#pragma once

#include <map>
#include <string>

namespace khost::judge {

// Read by glibc when a program is executed, and inherited by forks. No block is a mapping of its own (mmap_max=0), and
// nothing goes back to the system (trim_threshold): after the warm-up a heap is as large as its task needs.
inline const std::map<std::string, std::string> kAllocatorSettings = {
    {"GLIBC_TUNABLES", "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=10000000000"}};

}  // namespace khost::judge
