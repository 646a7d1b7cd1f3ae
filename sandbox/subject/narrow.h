// What a candidate may not do beyond what its jail forbids: choose its cores, its scheduling class and its priority,
// and order signals for a time when it is to stand.
#pragma once

namespace khost::sandbox {

// Adds a filter to this process and all threads that it will start. False when the kernel refuses it. The jail has
// already set no_new_privs, or it is set here.
bool narrow();

}  // namespace khost::sandbox
