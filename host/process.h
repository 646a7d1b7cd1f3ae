// Programs of this machine that khost starts itself: helper Pythons, pip, launchers, the judge. They are trusted; a
// candidate's code runs in jails, which sandbox/jail starts. Boost.Process does the starting, in process.cpp alone.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/base/result.h"

namespace khost {

struct ProgramOptions {
  double timeout_s = 60;
  size_t output_bytes = 1 << 16;
};

struct ProgramResult {
  int code = -1;       // 128 + signal when killed, 124 when out of time
  std::string output;  // standard output and error together
  double wall_s = 0;
};

// The handle by which another thread ends a program. One serves one run.
class ProgramStop {
 public:
  // Kills the program's process group and returns when the program itself is dead: its files, sockets and locks are
  // free by then. A program that was not started yet never is. May be called more than once.
  void ask();
  bool asked() const;

 private:
  friend class RunningProgram;
  mutable std::mutex mutex_;
  bool asked_ = false;
  pid_t pid_ = 0;  // while it runs and was not reaped
};

// Blocking, from any thread. Standard input is empty. Fails with io when the program cannot be started, with cancelled
// when `stop` was asked before that.
Result<ProgramResult> run_program(const std::vector<std::string>& argv, const ProgramOptions& options,
                                  const std::shared_ptr<ProgramStop>& stop = nullptr);

// A program that goes on while its starter talks to it through two pipes; the starter owns the descriptors, which are
// closed on exec, and reaps the process with waitpid.
struct TalkingProgram {
  pid_t pid = 0;
  int to = -1;    // its standard input
  int from = -1;  // its standard output; standard error is khost's
};
Result<TalkingProgram> start_talking(const std::vector<std::string>& argv);

}  // namespace khost
