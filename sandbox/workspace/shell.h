// A long-lived bash in a jail of one workspace: working directory, variables and functions persist between commands.
//
// Commands go in over one descriptor, and over another comes a report with a random marker per command, so that no
// output can be mistaken for the end of a command. Standard input of a command is /dev/null unless given. A timeout
// kills what the command started, not the shell; only when that does not help the shell is replaced, in the same
// directory, and the result says state_lost. Background jobs have jails of their own (same files, same /tmp), so that
// their exit comes from the process itself and their daemons die with them.
//
// run() blocks and serves one command at a time; cancel() may come from another thread and makes it return early.
// Job functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/jail/jail.h"
#include "sandbox/workspace/shell_job.h"
#include "sandbox/workspace/workspace.h"

namespace khost::sandbox {

struct ShellOptions {
  std::map<std::string, std::string> environment;
  std::vector<std::string> readable_prefixes;  // an interpreter, a toolkit outside /usr
  std::vector<std::string> devices;
  Limits limits;
  double timeout_s = 120;  // of a command that names none
};

struct RunOptions {
  double timeout_s = 0;         // 0: the shell's
  std::string input;            // standard input; empty is /dev/null
  size_t output_bytes = 30000;  // beyond it the middle is cut, and full_path names a file with everything
};

struct RunResult {
  int code = -1;       // -1 when the command was ended by timeout or cancel
  std::string output;  // stdout and stderr as they came, without escapes, valid UTF-8
  bool truncated = false;
  bool timed_out = false;
  bool state_lost = false;  // the shell had to be replaced
  double wall_s = 0;
  std::string cwd;        // after the command
  std::string full_path;  // inside the workspace
  std::string notice;     // what khost did about it: a cd undone, the workspace full, a syntax error
};

class Shell {
 public:
  static Result<std::shared_ptr<Shell>> open(std::shared_ptr<Workspace> workspace, const ShellOptions& options);
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  ~Shell();

  Result<RunResult> run(const std::string& command, const RunOptions& options);
  void cancel();

  // Runs in the background with the shell's directory and exported variables; the id names it from then on.
  Result<std::string> start_job(const std::string& command, double timeout_s);
  std::shared_ptr<Job> job(const std::string& id) const;  // null when unknown
  std::vector<std::string> jobs() const;
  void close();  // ends the shell and its jobs

 private:
  Shell(std::shared_ptr<Workspace> workspace, const ShellOptions& options);
  struct Session;
  JailSpec base_spec() const;
  Status start_session();
  Result<RunResult> run_locked(const std::string& command, const RunOptions& options);
  bool await_report(const std::string& marker, std::chrono::steady_clock::time_point deadline, RunResult& result);
  void stop_command(const std::string& marker, RunResult& result);
  void replace_session(RunResult& result);
  void finish_output(RunResult& result, const RunOptions& options);

  std::shared_ptr<Workspace> workspace_;
  ShellOptions options_;
  std::mutex running_;  // one command at a time
  std::unique_ptr<Session> session_;
  std::string cwd_ = kWorkspaceInside;
  int commands_ = 0;
  int cancel_event_ = -1;
  mutable std::mutex jobs_mutex_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  std::atomic<bool> closed_{false};
};

}  // namespace khost::sandbox
