// What a candidate may not do beyond what its jail forbids: choose its cores, its scheduling class and its priority,
// order signals for a time when it is to stand, ask or say which pages of a file are in memory, which outlives the
// jail, have pages of another size than what it is compared with, and end itself by the signal with which the kernel
// ends a process for want of memory.
#pragma once

namespace khost::sandbox {

// Adds a filter to all threads of this process, those that it has (a driver's) and those that it will start. False when
// the kernel refuses it. The jail has already set no_new_privs, or it is set here.
bool narrow();

}  // namespace khost::sandbox
