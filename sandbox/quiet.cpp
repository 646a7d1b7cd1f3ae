#include "sandbox/quiet.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "sandbox/jail/tree.h"

namespace khost::sandbox {
namespace {

constexpr int kMostPasses = 50;  // a process may fork until it is stopped

void send(int pidfd, int number) { syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0); }

// Its state by proc(5): R, S, D, T (stopped), Z, ...; 0 when it is gone.
char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

bool is_jail(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name == "bwrap";
}

}  // namespace

Quiet::Quiet(pid_t keep, pid_t host) : keep_(keep), host_(host) { look_again(); }

Quiet::~Quiet() {
  for (const auto& [pid, fd] : stopped_) {
    send(fd.get(), SIGCONT);
  }
}

void Quiet::look_again() {
  for (int pass = 0; pass < kMostPasses && look(); pass++) {
  }
}

bool Quiet::look() {
  grown_ = false;
  stop_below(getpid(), false);
  if (host_ > 0) {
    for (const pid_t child : children_of(host_)) {
      if (child != getpid() && is_jail(child)) {
        stop_below(child, true);
      }
    }
  }
  return grown_;
}

// Stops everything below `pid`, and itself when `whole`. Returns whether the process to be timed is there: then the way
// to it is left alone.
bool Quiet::stop_below(pid_t pid, bool whole) {
  if (pid == keep_) {
    return true;
  }
  bool holds = false;
  for (const pid_t child : children_of(pid)) {
    holds = stop_below(child, true) || holds;
  }
  if (!whole || holds || stopped_.count(pid) > 0 || strchr("RSDI", state_of(pid)) == nullptr) {
    return holds;
  }
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const char state = fd ? state_of(pid) : '\0';
  if (state != '\0' && strchr("RSDI", state) != nullptr) {
    send(fd.get(), SIGSTOP);
    stopped_.emplace(pid, std::move(fd));
    grown_ = true;
  }
  return false;
}

void continue_jails() {
  for (const pid_t child : children_of(getpid())) {
    if (is_jail(child)) {
      signal_descendants(child, SIGCONT);
      kill(child, SIGCONT);
    }
  }
}

}  // namespace khost::sandbox
