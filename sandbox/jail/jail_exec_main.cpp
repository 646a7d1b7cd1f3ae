// khost-jail-exec: process 1 of a jail. It runs inside the view that bubblewrap made, starts the program with the
// privileges taken away, reaps orphans, reports the exit of the program and ends, which ends every process inside.
//
// fd 3: settings (JSON, written by jail.cpp). fd 4: socket to the host. fds from 10: those of the program.
// Messages to the host: "init", "main" (each with the sender's pid as the kernel sees it), then "started" or
// "error TEXT", then "exit WAIT_STATUS CPU_SECONDS". From the host: "go".
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "sandbox/jail/seccomp.h"
#include "sandbox/jail/settings.h"

namespace {

using khost::Json;
using namespace khost::sandbox;

[[noreturn]] void give_up(const std::string& what) {
  const std::string text = what + (errno != 0 ? std::string(": ") + strerror(errno) : "");
  [[maybe_unused]] const ssize_t n = write(kReportFd, text.data(), text.size());
  _exit(127);
}

void tell(const std::string& message) {
  send(kStatusFd, message.data(), message.size(), MSG_NOSIGNAL);
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

// Puts fd 10 + i where the program wants it (below kReportFd); what it did not ask for is closed, 0 to 2 become
// /dev/null.
void place_fds(const Json& inside) {
  std::vector<int> copies;
  for (size_t i = 0; i < inside.size(); ++i) {
    copies.push_back(fcntl(kFirstFd + static_cast<int>(i), F_DUPFD, kReportFd + 1));
    if (copies.back() < 0) {
      give_up("fcntl F_DUPFD");
    }
  }
  for (int fd = 0; fd < kReportFd; ++fd) {
    close(fd);
  }
  for (size_t i = 0; i < inside.size(); ++i) {
    dup2(copies[i], inside[i].get<int>());
  }
  for (int fd = 0; fd < 3; ++fd) {
    // open takes the lowest free number, which is fd
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) {
      give_up("open /dev/null");
    }
  }
  closefrom(kReportFd + 1);
}

void limit(int resource, double soft, double hard) {
  rlimit old{};
  getrlimit(static_cast<__rlimit_resource>(resource), &old);
  rlimit wanted{static_cast<rlim_t>(soft), static_cast<rlim_t>(hard)};
  wanted.rlim_max = std::min(wanted.rlim_max, old.rlim_max);
  wanted.rlim_cur = std::min(wanted.rlim_cur, wanted.rlim_max);
  if (setrlimit(static_cast<__rlimit_resource>(resource), &wanted) != 0) {
    give_up("setrlimit " + std::to_string(resource));
  }
}

void set_limits(const Json& limits, bool address_space) {
  const double cpu_s = std::ceil(limits.at("cpu_s").get<double>());
  limit(RLIMIT_CPU, cpu_s, cpu_s + 2);
  const double memory = limits.at("memory_bytes").get<double>();
  if (address_space) {
    limit(RLIMIT_AS, memory, memory);
  }
  const double processes = limits.at("processes").get<double>();
  limit(RLIMIT_NPROC, processes, processes);
  const double file = limits.at("file_bytes").get<double>();
  limit(RLIMIT_FSIZE, file, file);
  const double files = limits.at("open_files").get<double>();
  limit(RLIMIT_NOFILE, files, files);
  limit(RLIMIT_MSGQUEUE, 0, 0);
  // Zero would still start a core handler that is a program (|/path in core_pattern); one byte stops both kinds.
  limit(RLIMIT_CORE, 1, 1);
}

void drop_privileges(const Json& settings) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (settings.at("drop").get<bool>()) {
    const auto uid = settings.at("uid").get<uid_t>();
    if (setgroups(0, nullptr) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) {
      give_up("cannot become uid " + std::to_string(uid));
    }
    errno = 0;
    if (setuid(0) == 0 || getuid() != uid || getegid() != uid) {
      give_up("privileges came back after the change of uid");
    }
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    give_up("prctl PR_SET_NO_NEW_PRIVS");
  }
}

// The likeliest victim when memory runs out is the jail, not the host.
void volunteer_for_oom() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    [[maybe_unused]] const ssize_t n = write(fd, "600", 3);
    close(fd);
  }
}

[[noreturn]] void run_program(const Json& settings) {
  tell("main");
  volunteer_for_oom();
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  place_fds(settings.at("fds"));
  umask(022);
  set_limits(settings.at("limits"), settings.at("limit_address_space").get<bool>());
  drop_privileges(settings);
  const auto cwd = settings.at("cwd").get<std::string>();
  if (chdir(cwd.c_str()) != 0) {
    give_up("chdir " + cwd);
  }
  std::vector<std::string> words = settings.at("argv").get<std::vector<std::string>>();
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  clearenv();
  for (const auto& [name, value] : settings.at("environment").items()) {
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
  errno = 0;
  const std::string failure =
      apply_filter({settings.at("threads_only").get<bool>(), settings.at("allow_memfd").get<bool>()});
  if (!failure.empty()) {
    give_up(failure);
  }
  execvp(argv[0], argv.data());
  give_up("exec " + words[0]);
}

// Reaps until the program ends. Returning ends the pid namespace and with it every process that is left.
int watch(pid_t program) {
  double cpu_s = 0;
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = wait4(-1, &status, 0, &usage);
    if (pid < 0 && errno != EINTR) {
      return 1;
    }
    if (pid == program) {
      cpu_s = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
              static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
      char message[64];
      snprintf(message, sizeof message, "exit %d %.6f", status, cpu_s);
      tell(message);
      return 0;
    }
  }
}

}  // namespace

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // nobody inside reads the memory or descriptors of process 1
  const Json settings = Json::parse(read_all(kSettingsFd));
  close(kSettingsFd);
  tell("init");
  char go[8];
  if (recv(kStatusFd, go, sizeof go, 0) <= 0) {
    return 1;
  }
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    tell("error pipe2");
    return 1;
  }
  const pid_t program = fork();
  if (program == 0) {
    dup3(report[1], kReportFd, O_CLOEXEC);
    run_program(settings);
  }
  close(report[1]);
  if (program < 0) {
    tell(std::string("error fork: ") + strerror(errno));
    return 1;
  }
  const int failures = dup2(report[0], kStatusFd + 1);
  closefrom(failures + 1);  // the program's descriptors are its alone: their ends are seen when it ends
  const std::string failure = read_all(failures);
  close(failures);
  tell(failure.empty() ? "started" : "error " + failure);
  return failure.empty() ? watch(program) : 1;
}
