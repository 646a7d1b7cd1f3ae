// Starts a program from a thread that never ends. bubblewrap's --die-with-parent means the parent THREAD: started
// from a pool's thread, a jail would die with that thread. Any thread may call; calls are served one after another.
// Boost.Process, which starts khost's own programs (host/process.h), can do neither this nor close all other
// descriptors without a race, so this is posix_spawn by hand.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "host/base/result.h"

namespace khost::sandbox {

// The child gets exactly the descriptors of `fds` ({ours, number there}), an empty environment, default signal
// handling and its own process group (Ctrl-C goes to khost, which ends it in order).
Result<pid_t> spawn(const std::string& program, const std::vector<std::string>& argv,
                    const std::vector<std::pair<int, int>>& fds);

}  // namespace khost::sandbox
