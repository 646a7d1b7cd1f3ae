// A process tree that cannot reach the host: bubblewrap builds the view, khost-jail-exec drops the privileges.
//
// Two routes, chosen by who runs khost. Root: pid, net, ipc, uts and mount namespaces WITHOUT a user namespace (one
// made by root would leave its inhabitants kernel uid 0), then a real uid leased from a reserved range. An ordinary
// user: the same with a user namespace, in which the jail keeps the user's own kernel uid.
//
// Covered: files outside the allow-list view, other processes, network and abstract sockets, vsock and netlink,
// System V memory, memfds (unless allowed), ptrace and the kernel interfaces of seccomp.cpp, new privileges, core
// handlers; number of processes, address space, file size, open files, CPU time, size of /tmp; with writable cgroups
// also the memory of the whole jail. Every process dies with the jail, the jail dies with the process that started it.
// Not covered: bugs of the kernel and of GPU drivers, caches and timing side channels, bandwidth of disk and memory,
// space in writable binds (Workspace checks its own), and without cgroups the sum of memory over processes.
//
// A Jail belongs to one thread at a time. start() may be called from any thread and blocks for about 15 ms.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "host/base/result.h"
#include "sandbox/jail/jail_spec.h"

namespace khost::sandbox {

struct Exit {
  int code = -1;  // exit status of the main program, -1 when a signal ended it
  int signal = 0;
  bool timed_out = false;
  double wall_s = 0;
  double cpu_s = 0;  // of the main program and the children it waited for
};

struct Output {
  Exit exit;
  std::string out;
  std::string err;
  bool truncated = false;
};

class Jail {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Returns when the program runs (its exec succeeded) or says why it does not.
  static Result<Jail> start(const JailSpec& spec);
  Jail(Jail&& other) noexcept;
  Jail& operator=(Jail&& other) noexcept;
  ~Jail();  // kills the whole tree and waits for its end

  pid_t pid() const;  // of the main program, as the host sees it
  uid_t uid() const;  // kernel uid inside
  // Stops and continues every process of the jail. With threads_only this is one signal; otherwise the tree is
  // walked until no process is missed. A process that the jail's own code stopped is continued too.
  void freeze();
  void thaw();

  void signal(int number);  // to the main program only
  // To what the main program started at `since_s` (seconds of CLOCK_BOOTTIME) or later, and to their children.
  void signal_children(int number, double since_s);
  std::optional<Exit> poll();    // the exit once the program ended and its tree is gone
  int exit_fd() const;           // becomes readable at the end; for event loops
  Exit wait(Deadline deadline);  // kills the tree at the deadline, then timed_out
  Exit wait();                   // without a deadline
  void kill();                   // the whole tree; wait() or poll() then give the exit

 private:
  struct State;
  explicit Jail(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Runs to the end: feeds `input`, keeps the first and last parts of output beyond `output_bytes` per stream (and then
// sets truncated), kills the tree after timeout_s. Blocks. A jail that does not start is a Failure.
Result<Output> run_in_jail(const JailSpec& spec, const std::string& input, double timeout_s, size_t output_bytes);

// Whether this machine can make jails: the message names what is missing and the remedy.
Status jail_available();

// Folder of the running executable, where khost-jail-exec lies.
std::string self_directory();

}  // namespace khost::sandbox
