// Where workspaces lie on the host: one folder per khost process, locked while it lives, swept when it is dead.
#pragma once

#include <string>

#include "host/base/result.h"

namespace khost::sandbox {

// A new empty folder for one workspace, on a tmpfs of `bytes` and `most_files` where this process may mount one.
Result<std::string> make_home(size_t bytes, size_t most_files);
void remove_home(const std::string& home);

// Removes what killed owners left. make_home() calls it once; also for `khost doctor`.
void sweep_homes();

}  // namespace khost::sandbox
