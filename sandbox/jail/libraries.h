// The system's files that a compiled kernel needs, for jails that show nothing else of /usr: whether a page of a file
// is in memory is a bit that outlives every jail, so what such a jail shows always is. Any thread.
#pragma once

#include <string>
#include <vector>

namespace khost::sandbox {

// Paths of the dynamic linker, its cache and the libraries of C, C++, OpenMP and of khost's own programs, wherever the
// dynamic linker may look for them; held in memory. Empty where the system keeps its C library elsewhere.
const std::vector<std::string>& kernel_libraries();

// Holds a file's pages in memory while this process lives; without effect for what cannot be opened or locked.
void keep_in_memory(const std::string& path);

}  // namespace khost::sandbox
