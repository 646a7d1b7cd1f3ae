#include "sandbox/judge/cpu/clock.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "sandbox/jail/output_cut.h"
#include "sandbox/jail/tree.h"

namespace khost::judge {

using sandbox::processor_s;

namespace {

using Steady = std::chrono::steady_clock;

constexpr double kSlice = 0.05;  // how often a wait looks whether the subject is still there
constexpr double kStandTimeout = 5;
constexpr double kMostQueued = 4;  // a call's limit grows by so many times itself at most, for waiting for a core
constexpr int kFavoured = -15;     // nice

double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

template <class F>
void each_thread(pid_t pid, F body) {
  std::error_code error;
  for (std::filesystem::directory_iterator i("/proc/" + std::to_string(pid) + "/task", error), end; !error && i != end;
       i.increment(error)) {
    body(i->path().string());
  }
}

double thread_queue_s(const std::string& thread) {
  std::ifstream file(thread + "/schedstat");
  unsigned long long ran = 0, waited = 0;
  return file >> ran >> waited ? static_cast<double>(waited) * 1e-9 : 0;
}

// Seconds that a process's first thread has waited for a core so far: a call is not late because others have the core.
double queued_s(pid_t pid) {
  return thread_queue_s("/proc/" + std::to_string(pid));
}

double thread_s() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

bool stands(const std::string& thread) {
  std::ifstream file(thread + "/stat");
  std::string line;
  std::getline(file, line);
  const auto end = line.rfind(')');
  return end == std::string::npos || end + 2 >= line.size() || strchr("TtZX", line[end + 2]) != nullptr;
}

// Whether a stopped thread has left its core. It is shown as stopped a moment before, and where a hypervisor takes the
// core away in that moment it is charged for the pause later, as if it had run. The kernel answers this question only
// of a thread that is off its core; true where it may not be asked.
bool off_core(const std::string& thread) {
  std::ifstream file(thread + "/syscall");
  std::string line;
  return !std::getline(file, line) || line != "running";
}

// The cores that this judge was given, by taskset, a cpuset or a scheduler: read once, before anything is pinned.
const std::vector<int>& own_cores() {
  static const std::vector<int> cores = [] {
    std::vector<int> list;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
      for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &set)) {
          list.push_back(core);
        }
      }
    }
    return list;
  }();
  return cores;
}

// Nanoseconds for which anything ran on each of the system's cores, from a file of the kernel; empty where it does not
// say.
// Per core the group of cgroups v1 that is seen as the root, else the scheduler's own statistics. Both count what runs
// when it leaves its core, at the latest.
std::vector<unsigned long long> used_by_core_ns() {
  for (const char* path :
       {"/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu", "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage_percpu"}) {
    std::vector<unsigned long long> used;
    std::ifstream file(path);
    for (unsigned long long one = 0; file >> one;) {
      used.push_back(one);
    }
    if (!used.empty()) {
      return used;
    }
  }
  std::vector<unsigned long long> used;
  std::ifstream file("/proc/schedstat");
  for (std::string line; std::getline(file, line);) {
    int core = 0;
    unsigned long long ran = 0;  // the seventh number of a core
    if (sscanf(line.c_str(), "cpu%d %*u %*u %*u %*u %*u %*u %llu", &core, &ran) == 2 && core >= 0 &&
        core < CPU_SETSIZE) {
      used.resize(std::max(used.size(), static_cast<std::size_t>(core) + 1));
      used[static_cast<std::size_t>(core)] = ran;
    }
  }
  return used;
}

cpu_set_t core_set(int first_core, int cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int end = std::min(first_core + cores, static_cast<int>(own_cores().size()));
  for (int i = first_core; i < end; i++) {
    CPU_SET(own_cores()[i], &set);
  }
  return set;
}

// Seconds for which anything ran on these of our cores; nothing where the kernel does not say.
std::optional<double> cores_used_s(int first_core, int cores) {
  const std::vector<unsigned long long> used = used_by_core_ns();
  const int end = std::min(first_core + cores, static_cast<int>(own_cores().size()));
  double total = 0;
  for (int i = first_core; i < end; i++) {
    const auto core = static_cast<std::size_t>(own_cores()[static_cast<std::size_t>(i)]);
    if (core >= used.size()) {
      return std::nullopt;
    }
    total += static_cast<double>(used[core]) * 1e-9;
  }
  return cores > 0 ? std::optional(total) : std::nullopt;
}

pid_t thread_number(const std::string& folder) {
  return atoi(folder.c_str() + folder.rfind('/') + 1);
}

}  // namespace

bool all_stand(pid_t pid) {
  bool all = true;
  each_thread(pid, [&](const std::string& thread) { all = all && stands(thread); });
  return all;
}

std::optional<double> stood_at_s(pid_t pid) {
  const auto begin = Steady::now();
  std::optional<double> last = -1;
  while (since(begin) < kStandTimeout) {
    bool all = true;
    each_thread(pid, [&](const std::string& thread) { all = all && stands(thread) && off_core(thread); });
    const std::optional<double> used = all ? processor_s(pid) : std::nullopt;
    if (all && used == last) {
      return used.value_or(0);  // it is gone
    }
    last = used;
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  return std::nullopt;
}

double waited_s() {
  return thread_queue_s("/proc/thread-self");
}

bool Clock::stand_still() {
  const std::optional<double> used = stood_at_s(player_.pid);
  if (used) {
    used_s_ = used;
  }
  return used.has_value();
}

// The exit of a process that has run while it was to stand: somebody may have killed it, and dying takes time too.
std::optional<sandbox::Exit> Clock::ends_soon() {
  const auto begin = Steady::now();
  std::optional<sandbox::Exit> exit = player_.ended();
  while (!exit && since(begin) < kSlice) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    exit = player_.ended();
  }
  return exit;
}

Window Clock::run(std::uint32_t seq, double timeout_s, bool thaw) {
  Window window;
  if (thaw && used_s_) {
    // Only growth counts: honest subjects were blamed when any difference between two readings did.
    window.ran_s = processor_s(player_.pid).value_or(*used_s_) - *used_s_;
    if (window.ran_s > 0) {
      window.exit = ends_soon();
      window.end = window.exit ? Window::End::gone : Window::End::ran;
      return window;
    }
  }
  if (thaw && player_.cores > 0) {
    pin(player_.pid, player_.first_core, player_.cores);
  }
  if (thaw && favoured_) {
    each_thread(player_.pid, [](const std::string& thread) {
      setpriority(PRIO_PROCESS, static_cast<id_t>(thread_number(thread)), kFavoured);
    });
  }
  const double before = others_s(), used_before = processor_s(player_.pid).value_or(0);
  const double queued_before = queued_s(player_.pid);
  if (thaw) {
    player_.page->go.store(seq, std::memory_order_release);
  }
  const auto t0 = Steady::now();
  if (thaw) {
    sandbox::post_go(*player_.page, seq);
    player_.thaw();
  }
  bool done = false;
  while (!(done = sandbox::wait_done(*player_.page, seq, std::min(kSlice, timeout_s)))) {
    window.exit = player_.ended();
    if (window.exit ||
        since(t0) > timeout_s + std::min(kMostQueued * timeout_s, queued_s(player_.pid) - queued_before)) {
      break;
    }
  }
  const auto t1 = Steady::now();
  const double used = processor_s(player_.pid).value_or(0);
  const std::uint32_t stamp = sandbox::clock_stamp() - player_.page->stamp.load(std::memory_order_relaxed);
  window.seconds = std::chrono::duration<double>(t1 - t0).count();
  window.reply_s = std::max(0.0, stamp * 1e-9 - since(t1));
  if (!done) {
    window.end = window.exit ? Window::End::gone : Window::End::timeout;
  }
  player_.freeze();
  if (done && !stand_still()) {
    window.end = Window::End::stuck;
  }
  window.freeze_s = since(t1);
  window.late_s = std::clamp(used_s_.value_or(used) - used, 0.0, window.freeze_s);
  if (window.end == Window::End::done && thaw && !in_place()) {
    window.end = Window::End::escaped;
  }
  window.others_s = std::max(0.0, others_s() - before);
  if (player_.cores > 0) {
    // Others' time is charged at ticks, so some of it is from before the window: they had no more than the subject
    // left.
    const double own = processor_s(player_.pid).value_or(0) - used_before;
    const double left = player_.cores * (window.seconds + window.freeze_s) - own;
    window.others_s = std::min(window.others_s, std::max(0.0, left));
  }
  window.status = player_.page->status.load(std::memory_order_relaxed);
  const char* text = player_.page->message;
  window.message = sandbox::words_of_a_stranger({text, strnlen(text, sizeof player_.page->message)});
  if (window.end == Window::End::done && window.message.empty() && window.status != 0) {
    window.message = "status " + std::to_string(window.status);
  }
  return window;
}

// What grows while others have the subject's cores, or the judge's thread waits for one. The subject stands, so its
// processor time is exact; of a core that the judge shares with it the judge's own time is no other's either.
double Clock::others_s() const {
  const double waited = waited_s();
  const std::optional<double> cores = cores_used_s(player_.first_core, player_.cores);
  if (!cores) {
    return waited;
  }
  return waited + *cores - processor_s(player_.pid).value_or(0) - (core_count() < 2 ? thread_s() : 0);
}

bool Clock::in_place() {
  if (player_.cores == 0 || core_count() < 2) {
    return true;
  }
  const cpu_set_t wanted = core_set(player_.first_core, player_.cores);
  bool all = true;
  each_thread(player_.pid, [&](const std::string& thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    all = all && (sched_getaffinity(thread_number(thread), sizeof set, &set) != 0 || CPU_EQUAL(&set, &wanted));
  });
  return all;
}

void Clock::stop() {
  player_.freeze();
  stand_still();
}

Window Clock::ready(double timeout_s) {
  return run(sandbox::kReady, timeout_s, false);
}

Window Clock::call(double timeout_s) {
  return run(++seq_, timeout_s, true);
}

int core_count() {
  return static_cast<int>(own_cores().size());
}

int subject_core() {
  return core_count() > 1 ? 1 : 0;
}
int judge_core() {
  return own_cores().empty() ? 0 : own_cores().front();
}
int subject_cores(int threads) {
  return std::max(1, std::min(threads, core_count() - 1));
}

void pin(pid_t pid, int first_core, int cores) {
  if (core_count() < 2) {
    return;
  }
  const cpu_set_t set = core_set(first_core, cores);
  each_thread(pid, [&](const std::string& thread) { sched_setaffinity(thread_number(thread), sizeof set, &set); });
}

void pin_thread(int core) {
  const cpu_set_t set = core_set(core, 1);
  sched_setaffinity(0, sizeof set, &set);
}

OffTheCores::OffTheCores(int first_core, int cores) : nice_(getpriority(PRIO_PROCESS, 0)) {
  cpu_set_t mine = core_set(0, core_count());
  const cpu_set_t theirs = core_set(first_core, cores);
  CPU_XOR(&mine, &mine, &theirs);  // theirs are among mine
  setpriority(PRIO_PROCESS, 0, kFavoured);
  moved_ = core_count() > 1 && CPU_COUNT(&mine) > 0;
  if (moved_) {
    each_thread(getpid(),
                [&](const std::string& thread) { sched_setaffinity(thread_number(thread), sizeof mine, &mine); });
  }
}

OffTheCores::~OffTheCores() {
  setpriority(PRIO_PROCESS, 0, nice_);
  if (moved_) {
    pin(getpid(), 0, core_count());
  }
}

double charged_s(const Window& window, double allowed_s) {
  return window.seconds + std::max(0.0, window.late_s - allowed_s);
}

double own_s(const Window& window, double seconds, int cores) {
  return cores > 1 ? seconds : std::max(0.0, seconds - window.others_s);
}

bool undisturbed(const Window& window) {
  return window.others_s <= 20e-6 + 0.01 * window.seconds;
}

}  // namespace khost::judge
