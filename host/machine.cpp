#include "host/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <fstream>

#include "host/base/defer.h"

extern char** environ;

namespace khost {

namespace {

// The first number behind `key` in a file like /proc/meminfo.
std::optional<double> number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word == key) {
      double value = 0;
      return file >> value ? std::optional<double>(value) : std::nullopt;
    }
  }
  return std::nullopt;
}

// A control group's memory limit: version 2, then version 1. "max" is none.
std::optional<double> memory_limit() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    double value = 0;
    // Version 1 says "no limit" with a number near 2^63.
    if (file >> value && value < 1e15) {
      return value;
    }
  }
  return std::nullopt;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Json machine_facts(const std::string& path) {
  Json facts = {{"user_id", geteuid()}, {"cores_online", sysconf(_SC_NPROCESSORS_ONLN)}};
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    facts["cores"] = CPU_COUNT(&cores);
  }
  if (auto kib = number_in("/proc/meminfo", "MemTotal:")) {
    facts["memory_bytes"] = *kib * 1024;
  }
  if (auto kib = number_in("/proc/meminfo", "MemAvailable:")) {
    facts["memory_available_bytes"] = *kib * 1024;
  }
  if (auto bytes = memory_limit()) {
    facts["memory_limit_bytes"] = *bytes;
  }
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) == 0) {
    facts["disk_free_bytes"] = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  }
  utsname system{};
  if (uname(&system) == 0) {
    facts["kernel"] = system.release;
    facts["machine"] = system.machine;
    facts["host"] = system.nodename;
  }
  return facts;
}

void ProgramStop::ask() {
  const std::scoped_lock lock(mutex_);
  asked_ = true;
  if (pid_ != 0) {
    kill(-pid_, SIGKILL);
    siginfo_t info;
    // Looks without reaping, which is the running thread's to do: it needs the lock for it, so `pid_` stays ours.
    while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
  }
}

bool ProgramStop::asked() const {
  const std::scoped_lock lock(mutex_);
  return asked_;
}

Result<ProgramResult> run_program(const std::vector<std::string>& argv, const ProgramOptions& options,
                                  const std::shared_ptr<ProgramStop>& stop_or_none) {
  const std::shared_ptr<ProgramStop> stop = stop_or_none ? stop_or_none : std::make_shared<ProgramStop>();
  if (argv.empty()) {
    return Failure{"no program was named", "bad_input"};
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Failure{std::string("pipe: ") + strerror(errno), "io"};
  }
  Defer close_read([&] { close(ends[0]); });
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  Defer destroy([&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  });
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  // A group of its own: it is killed with all its children, and Ctrl-C goes to khost alone.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> pointers;
  for (const auto& word : argv) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  pid_t pid = 0;
  int error = ECANCELED;
  {
    const std::scoped_lock lock(stop->mutex_);
    if (!stop->asked_) {
      error = posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes, pointers.data(), environ);
      stop->pid_ = error == 0 ? pid : 0;
    }
  }
  close(ends[1]);
  if (error == ECANCELED) {
    return Failure{"stopped before '" + argv[0] + "' was started", "cancelled"};
  }
  if (error != 0) {
    return Failure{"cannot start '" + argv[0] + "': " + strerror(error), "io"};
  }
  ProgramResult result;
  const double begin = now_s();
  bool timed_out = false, killed = false;
  // Kills the group, once, when its time is over.
  auto over = [&] {
    timed_out = timed_out || now_s() - begin > options.timeout_s;
    if (timed_out && !killed) {
      kill(-pid, SIGKILL);
      killed = true;
    }
    return killed || stop->asked();
  };
  int status = 0;
  auto reaped = [&] {
    const std::scoped_lock lock(stop->mutex_);
    const bool gone = waitpid(pid, &status, WNOHANG) != 0;
    stop->pid_ = gone ? 0 : pid;
    return gone;
  };
  char block[4096];
  while (!over()) {
    pollfd ready{ends[0], POLLIN, 0};
    if (poll(&ready, 1, 50) <= 0) {
      continue;
    }
    ssize_t n = read(ends[0], block, sizeof block);
    if (n == 0 || (n < 0 && errno != EINTR)) {
      break;
    }
    size_t room = options.output_bytes - std::min(options.output_bytes, result.output.size());
    result.output.append(block, std::min(static_cast<size_t>(std::max<ssize_t>(n, 0)), room));
  }
  // The output may end before the program does.
  while (!reaped()) {
    over();
    usleep(2000);
  }
  result.wall_s = now_s() - begin;
  result.code = timed_out ? 124 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace khost
