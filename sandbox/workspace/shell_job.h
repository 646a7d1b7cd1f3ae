// A background command in a jail of its own, with bounded memory for what it prints.
// A thread of the job drains its output; any thread may call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "host/base/result.h"
#include "sandbox/jail/jail.h"

namespace khost::sandbox {

struct JobOutput {
  std::string output;     // since the last call
  size_t lost_bytes = 0;  // fell out of the buffer before they were read
  std::string status;     // running, completed, failed, killed, timed_out
  int code = -1;          // of the reaped process; -1 while it runs or when a signal ended it
  double wall_s = 0;
};

class Job {
 public:
  static Result<std::shared_ptr<Job>> start(JailSpec spec, double timeout_s);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();  // kills it

  bool running() const;
  JobOutput take();
  void kill();  // TERM, 0.2 s, then KILL for the whole tree; returns when it is gone

 private:
  explicit Job(Jail jail);
  void drain(int fd, double timeout_s);

  mutable std::mutex mutex_;
  Jail jail_;
  std::string buffer_;
  size_t lost_ = 0;
  bool kill_asked_ = false;
  std::optional<Exit> exit_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::condition_variable ended_;
  std::thread thread_;
};

}  // namespace khost::sandbox
