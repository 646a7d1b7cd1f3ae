#include "sandbox/workspace/shell.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>

#include "sandbox/jail/fd.h"
#include "sandbox/jail/output_cut.h"
#include "sandbox/workspace/shell_driver.h"
#include "sandbox/workspace/start_gate.h"

namespace khost::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKeptBytes = 2 << 20;  // of a command's raw output; the file with "everything" holds no more
constexpr int kLimitsEveryMs = 500;     // how often the size of a workspace is looked at while a command runs
constexpr int kMostJobs = 16;

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(s, 1e8)));
}

double boot_seconds() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string random_marker() {
  std::random_device random;
  return "khost" + std::to_string(random()) + "x" + std::to_string(random());
}

// A command is text for bash: NUL cannot be in it.
std::string without_nul(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '\0'), text.end());
  return text;
}

}  // namespace

struct Shell::Session {
  std::optional<Jail> jail;
  Fd commands, reports, output;
  std::string report_buffer;
  std::unique_ptr<HeadTail> text;
  double command_begin_s = 0;

  // Whatever is in the pipe now.
  void drain() {
    char buffer[65536];
    for (ssize_t n; (n = read(output.get(), buffer, sizeof buffer)) > 0;) {
      text->add({buffer, static_cast<size_t>(n)});
    }
  }
};

Shell::Shell(std::shared_ptr<Workspace> workspace, const ShellOptions& options)
    : workspace_(std::move(workspace)), options_(options), cancel_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Shell::~Shell() {
  close();
  ::close(cancel_event_);
}

Result<std::shared_ptr<Shell>> Shell::open(std::shared_ptr<Workspace> workspace, const ShellOptions& options) {
  std::shared_ptr<Shell> shell(new Shell(std::move(workspace), options));
  const Status started = shell->start_session();
  return started ? Result<std::shared_ptr<Shell>>(shell) : started.failure();
}

JailSpec Shell::base_spec() const {
  JailSpec spec = workspace_->jail_spec();
  spec.name = "shell";
  spec.limits = options_.limits;
  spec.readable_prefixes = options_.readable_prefixes;
  spec.devices = options_.devices;
  for (const auto& [name, value] : options_.environment) {
    spec.environment[name] = value;
  }
  return spec;
}

Status Shell::start_session() {
  auto session = std::make_unique<Session>();
  JailSpec spec = base_spec();
  spec.argv = {"bash", "--norc", "--noprofile", "-c", kShellDriver};
  int pipes[3][2];
  std::vector<Fd> owned;
  for (auto& ends : pipes) {
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return system_failure("pipe2");
    }
    owned.emplace_back(ends[0]);
    owned.emplace_back(ends[1]);
  }
  session->commands = std::move(owned[1]);
  session->reports = std::move(owned[2]);
  session->output = std::move(owned[4]);
  fcntl(session->reports.get(), F_SETFL, O_NONBLOCK);
  fcntl(session->output.get(), F_SETFL, O_NONBLOCK);
  spec.fds = {{pipes[0][0], kCommandFd},
              {pipes[1][1], kReportFdOfShell},
              {pipes[2][1], 1},
              {pipes[2][1], 2},
              {pipes[2][1], kOutputFdOfShell}};
  Result<Jail> jail = [&spec] {
    const StartGate gate;
    return Jail::start(spec);
  }();
  if (!jail) {
    return jail.failure();
  }
  session->jail = std::move(*jail);
  session->text = std::make_unique<HeadTail>(kKeptBytes);
  session_ = std::move(session);
  return ok();
}

void Shell::cancel() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(cancel_event_, &one, sizeof one);
}

void Shell::close() {
  closed_ = true;
  cancel();
  const std::lock_guard lock(running_);
  session_.reset();
  std::map<std::string, std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard jobs_lock(jobs_mutex_);
    jobs.swap(jobs_);
  }
  jobs.clear();
  workspace_.reset();  // whoever still holds this shell holds no folder
}

Result<RunResult> Shell::run(const std::string& command, const RunOptions& options) {
  const std::lock_guard lock(running_);
  if (closed_) {
    return Failure{"the shell is closed", "gone"};
  }
  uint64_t stale = 0;
  [[maybe_unused]] const ssize_t n = read(cancel_event_, &stale, sizeof stale);
  return run_locked(command, options);
}

Result<RunResult> Shell::run_locked(const std::string& command, const RunOptions& options) {
  RunResult result;
  const auto begin = Clock::now();
  if (!session_ || session_->jail->poll()) {
    replace_session(result);
    if (!session_) {
      return Failure{result.notice, "host"};
    }
  }
  std::string input_path = "/dev/null";
  if (!options.input.empty()) {
    const std::string path = ".khost/input-" + std::to_string(commands_);
    const Status written = workspace_->write(path, options.input);
    if (!written) {
      return written.failure();
    }
    input_path = std::string(kWorkspaceInside) + "/" + path;
  }
  ++commands_;
  session_->drain();  // what background children of earlier commands printed meanwhile stands before this output
  const std::string marker = random_marker();
  const std::string message = marker + '\0' + input_path + '\0' + without_nul(command) + '\0';
  session_->command_begin_s = boot_seconds() - 0.01;
  std::thread feeder;  // a long command does not fit into the pipe while bash waits for us to read its output
  const int commands = session_->commands.get();
  const auto feed = [commands, message] {
    for (size_t done = 0; done < message.size();) {
      const ssize_t n = write(commands, message.data() + done, message.size() - done);
      if (n <= 0) {
        return;
      }
      done += static_cast<size_t>(n);
    }
  };
  if (message.size() < 4096) {
    feed();
  } else {
    feeder = std::thread(feed);
  }
  const double timeout_s = options.timeout_s > 0 ? options.timeout_s : options_.timeout_s;
  if (!await_report(marker, begin + seconds(timeout_s), result)) {
    stop_command(marker, result);
  }
  if (feeder.joinable()) {
    feeder.join();
  }
  result.wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
  result.cwd = cwd_;
  finish_output(result, options);
  return result;
}

// True when the report of this command came; false on deadline, cancel, a full workspace or the shell's death.
bool Shell::await_report(const std::string& marker, Clock::time_point deadline, RunResult& result) {
  Session& session = *session_;
  auto look_at_limits = Clock::now() + std::chrono::milliseconds(kLimitsEveryMs);
  for (;;) {
    const auto now = Clock::now();
    if (now >= deadline) {
      result.timed_out = true;
      return false;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(deadline, look_at_limits) - now).count();
    pollfd waiting[] = {{session.output.get(), POLLIN, 0},
                        {session.reports.get(), POLLIN, 0},
                        {session.jail->exit_fd(), POLLIN, 0},
                        {cancel_event_, POLLIN, 0}};
    poll(waiting, 4, static_cast<int>(std::clamp<long long>(left, 0, kLimitsEveryMs)));
    session.drain();
    char buffer[4096];
    for (ssize_t n; (n = read(session.reports.get(), buffer, sizeof buffer)) > 0;) {
      session.report_buffer.append(buffer, static_cast<size_t>(n));
    }
    for (size_t end; (end = session.report_buffer.find('\0')) != std::string::npos;) {
      const std::string report = session.report_buffer.substr(0, end);
      session.report_buffer.erase(0, end + 1);
      int code = 0;
      char flags[16];
      int path_at = 0;
      if (report.rfind(marker + " ", 0) == 0 &&
          sscanf(report.c_str() + marker.size(), " %d %15s %n", &code, flags, &path_at) >= 2) {
        result.code = code;
        cwd_ = report.substr(marker.size() + static_cast<size_t>(path_at));
        if (std::string(flags) == "outside") {
          result.notice += "the directory was set back to " + cwd_ + ": only /workspace and /tmp are allowed\n";
        }
        session.drain();
        return true;
      }
    }
    if (session.report_buffer.size() > 65536) {
      session.report_buffer.clear();  // not ours: a report is a line
    }
    if (waiting[3].revents != 0 || session.jail->poll()) {
      return false;
    }
    if (Clock::now() >= look_at_limits) {
      const Status fits = workspace_->within_limits();
      if (!fits) {
        result.notice += "stopped: " + fits.failure().message + "\n";
        return false;
      }
      look_at_limits = Clock::now() + std::chrono::milliseconds(kLimitsEveryMs);
    }
  }
}

// Ends the command and keeps the shell where that is possible: bash gets SIGUSR1, which it answers as soon as the
// child it waits for is gone, by starting anew with its state.
void Shell::stop_command(const std::string& marker, RunResult& result) {
  Session& session = *session_;
  if (!session.jail->poll()) {
    session.jail->signal(SIGUSR1);
    session.jail->signal_children(SIGTERM, session.command_begin_s);
    RunResult ignored;
    bool stopped = await_report(marker, Clock::now() + std::chrono::milliseconds(200), ignored);
    for (int tries = 0; !stopped && tries < 10 && !session.jail->poll(); ++tries) {
      session.jail->signal_children(SIGKILL, session.command_begin_s);
      stopped = await_report(marker, Clock::now() + std::chrono::milliseconds(200), ignored);
    }
    if (stopped) {
      return;
    }
  }
  replace_session(result);
}

void Shell::replace_session(RunResult& result) {
  std::unique_ptr<HeadTail> text;
  if (session_) {
    session_->jail->kill();
    session_->jail->wait();
    session_->drain();
    text = std::move(session_->text);
    session_.reset();
  }
  result.state_lost = true;
  const Status started = start_session();
  if (!started) {
    result.notice += started.failure().message + "\n";
    return;
  }
  const std::string back = "khost" + std::to_string(commands_);
  const std::string message = back + '\0' + "/dev/null" + '\0' + "cd -- '" + [this] {
    std::string quoted;
    for (const char c : cwd_) {
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted;
  }() + "' 2>/dev/null" + '\0';
  [[maybe_unused]] const ssize_t n = write(session_->commands.get(), message.data(), message.size());
  RunResult ignored;
  await_report(back, Clock::now() + std::chrono::seconds(5), ignored);
  if (text) {
    session_->text = std::move(text);
  }
}

void Shell::finish_output(RunResult& result, const RunOptions& options) {
  if (!session_) {
    return;
  }
  const HeadTail raw = std::move(*session_->text);
  session_->text = std::make_unique<HeadTail>(kKeptBytes);
  const std::string clean = clean_output(raw.text());
  result.truncated = raw.dropped() > 0 || clean.size() > options.output_bytes;
  if (!result.truncated) {
    result.output = clean;
    return;
  }
  const std::string path = ".khost/output-" + std::to_string(commands_) + ".txt";
  if (workspace_->write(path, clean)) {
    result.full_path = std::string(kWorkspaceInside) + "/" + path;
  }
  result.output = cut_middle(clean, options.output_bytes, raw.dropped());
}

Result<std::string> Shell::start_job(const std::string& command, double timeout_s) {
  {
    const std::lock_guard lock(jobs_mutex_);
    size_t alive = 0;
    for (const auto& item : jobs_) {
      alive += item.second->running() ? 1 : 0;
    }
    if (alive >= static_cast<size_t>(kMostJobs)) {
      return Failure{std::to_string(kMostJobs) + " background jobs run already: end one with KillBash", "limit"};
    }
  }
  const Result<RunResult> exported = run("{ /usr/bin/env -0 | /usr/bin/base64 -w0; } 2>/dev/null",
                                         {.timeout_s = 60, .input = "", .output_bytes = 1 << 20});
  if (!exported) {
    return exported.failure();
  }
  JailSpec spec;
  {
    const std::lock_guard lock(running_);
    if (closed_) {
      return Failure{"the shell is closed", "gone"};
    }
    spec = base_spec();
  }
  spec.cwd = exported.value().cwd;
  spec.argv = {"bash",
               "--norc",
               "--noprofile",
               "-c",
               "while IFS= read -r -d '' v; do [[ $v == _=* ]] || export -- \"$v\" 2>/dev/null; done < "
               "<(base64 -d <<<\"$KHOST_EXPORTED\"); unset KHOST_EXPORTED v; eval \"$1\"",
               "bash",
               without_nul(command)};
  spec.environment["KHOST_EXPORTED"] = exported.value().output;
  Result<std::shared_ptr<Job>> job = Job::start(spec, timeout_s);
  if (!job) {
    return job.failure();
  }
  const std::lock_guard lock(jobs_mutex_);
  const std::string id = "bash_" + std::to_string(jobs_.size() + 1);
  jobs_[id] = *job;
  return id;
}

std::shared_ptr<Job> Shell::job(const std::string& id) const {
  const std::lock_guard lock(jobs_mutex_);
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

std::vector<std::string> Shell::jobs() const {
  const std::lock_guard lock(jobs_mutex_);
  std::vector<std::string> ids;
  for (const auto& item : jobs_) {
    ids.push_back(item.first);
  }
  return ids;
}

}  // namespace khost::sandbox
