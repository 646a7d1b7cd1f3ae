// A control group for one jail: the memory and the processes of all of it together, where the machine lets us make
// one (v1 memory and pids hierarchies, or v2). Where it does not, the rlimits of each process remain.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "sandbox/jail/jail_spec.h"

namespace khost::sandbox {

class Cgroup {
 public:
  // Null where control groups are not ours to make.
  static std::unique_ptr<Cgroup> create(const Limits& limits);
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;
  ~Cgroup();  // its processes must have ended

  void put(pid_t pid) const;

 private:
  Cgroup() = default;
  std::vector<std::string> folders_;
};

}  // namespace khost::sandbox
