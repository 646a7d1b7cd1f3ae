// What a jail may see and use, as one plain struct. The same description serves the agent's shell, builds, subjects
// of the judge and Python zygotes; jail.cpp turns it into bubblewrap arguments and settings for khost-jail-exec.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace khost::sandbox {

class UidLease;

// `source` of the host appears as `target` inside. A writable source directory that belongs to the caller is given
// to the jail's uid (the directory itself, not its content).
struct Bind {
  std::string source;
  std::string target;
  bool writable = false;
};

struct Limits {
  double cpu_s = 600;                // per process
  size_t memory_bytes = 4ull << 30;  // address space of a process; resident memory of the jail with cgroups
  int processes = 64;                // processes and threads together
  size_t file_bytes = 1ull << 30;    // largest file
  int open_files = 256;              // per process
  size_t tmp_bytes = 256ull << 20;   // /tmp, and again /dev/shm
  size_t tmp_files = 40000;          // the same; whoever empties one removes so many in some two seconds (root only)
};

struct JailSpec {
  std::string name;               // for messages and the host name inside
  std::vector<std::string> argv;  // argv[0] is looked up in PATH of `environment`
  std::string cwd = "/";
  std::map<std::string, std::string> environment;  // added to PATH, HOME=/tmp, USER, LANG, TMPDIR=/tmp
  std::vector<Bind> binds;  // beyond the base view: /usr, /bin, /lib*, a minimal /etc, /proc, /dev, /tmp
  std::vector<std::string> readable_prefixes;  // seen read-only at their own path; their parents are empty folders
  std::vector<std::string> devices;            // device nodes to show, for example /dev/nvidia0
  Limits limits;
  bool libraries_only =
      false;  // of /usr, /bin, /lib* and /etc it sees what a compiled kernel needs (libraries.h), no more
  bool threads_only = false;             // the program may start threads, but no process
  bool limit_address_space = true;       // false for CUDA, which reserves more than any sensible limit
  bool allow_memfd = false;              // anonymous files escape every limit but a cgroup's
  std::shared_ptr<const UidLease> uid;   // root only: run as this uid; null leases one for the life of the jail
  std::vector<std::pair<int, int>> fds;  // {ours, number inside}; everything else is closed, 0 to 2 are /dev/null
};

}  // namespace khost::sandbox
