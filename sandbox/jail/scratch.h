// The folders of a jail that its processes write to: /tmp and /dev/shm.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace khost::sandbox {

// Each of them holds at most so many files, folders and links from now on; bubblewrap bounds their bytes alone. `init`:
// process 1 of a jail in which nothing else runs yet. Only root can. In a jail of an
// ordinary user, or where the kernel refuses it, the bound is the kernel's own: half of the memory's pages.
void bound_files(pid_t init, std::size_t most);

}  // namespace khost::sandbox
