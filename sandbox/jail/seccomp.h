// The system call filter of every jail. Applied to the calling process, which must have no_new_privs set.
#pragma once

#include <string>

namespace khost::sandbox {

struct FilterOptions {
  bool threads_only = false;  // clone without CLONE_THREAD, fork and vfork answer EPERM
  bool allow_memfd = false;
};

// Empty on success, else the reason.
std::string apply_filter(const FilterOptions& options);

}  // namespace khost::sandbox
