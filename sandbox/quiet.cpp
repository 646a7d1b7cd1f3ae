#include "sandbox/quiet.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

#include "sandbox/jail/tree.h"

namespace khost::sandbox {
namespace {

constexpr int kMostPasses = 50;  // a process may fork until it is stopped
std::atomic<unsigned> begun, over;

void send(int pidfd, int number) {
  syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0);
}

bool is_jail(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name == "bwrap";
}

}  // namespace

Quiet::Quiet(pid_t keep, pid_t host) : keep_(keep), host_(host) {
  begun++;
  stop_new_processes();
}

Quiet::~Quiet() {
  for (const auto& [pid, fd] : stopped_) {
    send(fd.get(), SIGCONT);
  }
  over++;
}

std::optional<unsigned> Quiet::completed_count() {
  const unsigned ended = over;  // first: none can have ended that is not counted below
  const unsigned number = begun;
  return number == ended ? std::optional(number) : std::nullopt;
}

void Quiet::stop_new_processes() {
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
  if (!whole || holds || strchr("RSDI", state_of(pid)) == nullptr) {
    return holds;
  }
  if (const auto known = stopped_.find(pid); known != stopped_.end()) {
    send(known->second.get(), SIGSTOP);  // something continued it
    return false;
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
