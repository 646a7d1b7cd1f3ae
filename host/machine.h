// What this machine has, and running one of its programs to find out more. For `khost doctor` and for reports; no
// candidate's code is ever run through here.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost {

// {cores, cores_online, memory_bytes, memory_available_bytes, memory_limit_bytes?, disk_free_bytes, kernel, machine,
// host, user_id}; the disk is the one that holds `path`. Never fails: what cannot be read is absent.
Json machine_facts(const std::string& path);

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
  friend Result<ProgramResult> run_program(const std::vector<std::string>&, const ProgramOptions&,
                                           const std::shared_ptr<ProgramStop>&);
  mutable std::mutex mutex_;
  bool asked_ = false;
  pid_t pid_ = 0;  // while it runs and was not reaped
};

// Blocking, from any thread. Fails with io when the program cannot be started, with cancelled when `stop` was asked
// before that.
Result<ProgramResult> run_program(const std::vector<std::string>& argv, const ProgramOptions& options,
                                  const std::shared_ptr<ProgramStop>& stop = nullptr);

}  // namespace khost
