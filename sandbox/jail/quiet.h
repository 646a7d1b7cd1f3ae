// Silence on the machine's cores while something is timed: whatever runs below this process (builds, recordings, sets
// in the making) and, optionally, in jails of another process (the agents' shells) is stopped, and continued at the
// end. Processes that stood already stay as they are. A process of a shell that goes on again while it is to stand has
// ordered that, for example by a timer's signal, and would disturb what is timed on cores where nobody looks: it is
// killed. The process that is to be timed, what it started and its ancestors are left alone. A Quiet belongs to one
// thread; while one lives nobody else may stop or continue the processes concerned.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>

#include "sandbox/jail/fd.h"

namespace khost::sandbox {

class Quiet {
 public:
  // `keep`: the process to be timed. `host`: a process whose jails (children that are bubblewrap) are stopped too, 0
  // for none.
  Quiet(pid_t keep, pid_t host);
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet();

  // Stops processes that have appeared since, and stopped ones that run again. A fraction of a millisecond for each ten
  // processes.
  void stop_new_processes();
  // The number of finished quiet periods, or nothing while one is active. If it is the same before and after a look at
  // a process, no quiet period had stopped that process. Any thread.
  static std::optional<unsigned> completed_count();
  // Seconds in which this process has stopped others until now, an active period included. Any thread.
  static double stood_s();
  std::size_t stopped() const { return stopped_.size(); }

 private:
  bool look();
  bool stop_below(pid_t pid, bool whole);
  pid_t keep_, host_;
  bool grown_ = false;
  bool strangers_ = false;  // it looks at jails of the host now
  struct Stopped {
    Fd fd;                           // since numbers are used again
    std::optional<double> at_first;  // its processor time in seconds when it was stopped
    std::optional<double> seen_s;    // when it was last seen to stand
    std::optional<double> stood_s;   // the same, once it stayed that for a look
  };
  static bool ran(pid_t pid, Stopped& one, char state);
  std::map<pid_t, Stopped> stopped_;
};

// Continues everything in the jails of this process: for the end of a judge that was killed while it timed.
void continue_jails();

}  // namespace khost::sandbox
