// Signals to all processes below one, for freezing a jail.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

namespace khost::sandbox {

// The processes that `pid` started and has not waited for; empty when it is gone.
std::vector<pid_t> children_of(pid_t pid);

// Its state by proc(5): R, S, D, T (stopped), Z, ...; 0 when it is gone.
char state_of(pid_t pid);

// Its processor time now, of threads living and dead, in seconds; exact for one that stands. Nothing when it is gone.
std::optional<double> processor_s(pid_t pid);

// Sends `signal` to every descendant of `root`, not to root itself, and looks again until no new one appears: a
// process may fork until it is stopped, and orphans move to process 1. Only to those that began at `since_s` (seconds
// of CLOCK_BOOTTIME, to 10 ms) or later.
void signal_descendants(pid_t root, int signal, double since_s = 0);

}  // namespace khost::sandbox
