// Where workspaces lie on the host: one folder per khost process, locked while it lives and removed when it ends; what a
// killed one left is swept by the next.
#pragma once

#include <string>

#include "host/base/result.h"

namespace khost::sandbox {

// Gives this process a mount namespace of its own, where it may, so that the workspaces' file systems go with it even when
// it is killed. What others mount is seen as before. To be called while there is one thread.
void keep_mounts_private();

// A new empty folder for one workspace, on a tmpfs of `bytes` and `most_files` where this process may mount one.
Result<std::string> make_home(size_t bytes, size_t most_files);
void remove_home(const std::string& home);

// Removes what killed owners left. make_home() calls it once; also for `khost doctor`.
void sweep_homes();

}  // namespace khost::sandbox
