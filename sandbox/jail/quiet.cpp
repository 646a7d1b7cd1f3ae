#include "sandbox/jail/quiet.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <string>

#include "sandbox/jail/tree.h"

namespace khost::sandbox {
namespace {

constexpr int kMostPasses = 50;  // a process may fork until it is stopped
// What a hypervisor may charge to a process that stands; one that was continued to disturb uses more.
constexpr double kLeastRun_s = 1e-3;
constexpr double kLongestStop_s = 0.02;
std::atomic<unsigned> begun, over;

using Steady = std::chrono::steady_clock;
std::mutex standing_mutex;  // of the three below
int standing = 0;           // periods that are active
Steady::time_point standing_since;
double stood_before_s = 0;  // in periods that are over

double seconds_since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

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
  {
    const std::scoped_lock lock(standing_mutex);
    standing_since = standing++ == 0 ? Steady::now() : standing_since;
  }
  stop_new_processes();
}

Quiet::~Quiet() {
  for (const auto& [pid, one] : stopped_) {
    send(one.fd.get(), SIGCONT);
  }
  {
    const std::scoped_lock lock(standing_mutex);
    stood_before_s += --standing == 0 ? seconds_since(standing_since) : 0;
  }
  over++;
}

double Quiet::stood_s() {
  const std::scoped_lock lock(standing_mutex);
  return stood_before_s + (standing > 0 ? seconds_since(standing_since) : 0);
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
    strangers_ = true;
    for (const pid_t child : children_of(host_)) {
      if (child != getpid() && is_jail(child)) {
        stop_below(child, true);
      }
    }
    strangers_ = false;
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
  const char now = state_of(pid);
  if (const auto known = stopped_.find(pid); whole && !holds && known != stopped_.end()) {
    const bool again = ran(pid, known->second, now);
    if (again || strchr("RSDI", now) != nullptr) {
      send(known->second.fd.get(), again && strangers_ ? SIGKILL : SIGSTOP);
    }
    return false;
  }
  if (!whole || holds || strchr("RSDI", now) == nullptr) {
    return holds;
  }
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const char state = fd ? state_of(pid) : '\0';
  if (state != '\0' && strchr("RSDI", state) != nullptr) {
    send(fd.get(), SIGSTOP);
    stopped_.emplace(pid, Stopped{std::move(fd), processor_s(pid), std::nullopt, std::nullopt});
    grown_ = true;
  }
  return false;
}

// Whether it used the processor since it came to stand, or more than a stop can take. A stop takes effect late in a
// process that is in the kernel, and one is shown as stopped a moment before it leaves its core.
bool Quiet::ran(pid_t pid, Stopped& one, char state) {
  const std::optional<double> used = processor_s(pid);
  if (!one.stood_s) {
    one.stood_s = state == 'T' && used == one.seen_s ? used : std::nullopt;
    one.seen_s = state == 'T' ? used : std::nullopt;
  }
  const auto more = [&](const std::optional<double>& before, double seconds) {
    return used && before && *used > *before + seconds;
  };
  return more(one.stood_s, kLeastRun_s) || more(one.at_first, kLongestStop_s);
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
