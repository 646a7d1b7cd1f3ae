#include "sandbox/judge/clock.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace khost::judge {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kSlice = 0.05;        // how often a wait looks whether the subject is still there
constexpr double kStandTimeout = 5;

double since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

template <class F>
void each_thread(pid_t pid, F body) {
  std::error_code error;
  for (std::filesystem::directory_iterator i("/proc/" + std::to_string(pid) + "/task", error), end; !error && i != end;
       i.increment(error)) {
    body(i->path().string());
  }
}

double queue_s(pid_t pid) {
  double total = 0;
  each_thread(pid, [&](const std::string& thread) {
    std::ifstream file(thread + "/schedstat");
    unsigned long long ran = 0, waited = 0;
    if (file >> ran >> waited) {
      total += static_cast<double>(waited) * 1e-9;
    }
  });
  return total;
}

bool stands(const std::string& thread) {
  std::ifstream file(thread + "/stat");
  std::string line;
  std::getline(file, line);
  const auto end = line.rfind(')');
  return end == std::string::npos || end + 2 >= line.size() || strchr("TtZX", line[end + 2]) != nullptr;
}

}  // namespace

bool Clock::stand_still() {
  const auto begin = Steady::now();
  while (since(begin) < kStandTimeout) {
    bool all = true;
    each_thread(player_.pid, [&](const std::string& thread) { all = all && stands(thread); });
    if (all) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  return false;
}

Window Clock::run(std::uint32_t seq, double timeout_s, bool thaw) {
  Window window;
  const double before = queue_s(player_.pid);
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
    if (window.exit || since(t0) > timeout_s) {
      break;
    }
  }
  const auto t1 = Steady::now();
  window.seconds = std::chrono::duration<double>(t1 - t0).count();
  if (!done) {
    window.end = window.exit ? Window::End::gone : Window::End::timeout;
  }
  player_.freeze();
  if (done && !stand_still()) {
    window.end = Window::End::stuck;
  }
  window.freeze_s = since(t1);
  window.waited_s = std::max(0.0, queue_s(player_.pid) - before);
  window.status = player_.page->status.load(std::memory_order_relaxed);
  const char* text = player_.page->message;
  window.message.assign(text, strnlen(text, sizeof player_.page->message));
  if (window.end == Window::End::done && window.message.empty() && window.status != 0) {
    window.message = "status " + std::to_string(window.status);
  }
  return window;
}

void Clock::stop() {
  player_.freeze();
  stand_still();
}

Window Clock::ready(double timeout_s) { return run(sandbox::kReady, timeout_s, false); }

Window Clock::call(double timeout_s) { return run(++seq_, timeout_s, true); }

namespace {

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

}  // namespace

int core_count() { return static_cast<int>(own_cores().size()); }

void pin(pid_t pid, int first_core, int cores) {
  if (core_count() < 2) {
    return;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = first_core; i < std::min(first_core + cores, core_count()); i++) {
    CPU_SET(own_cores()[i], &set);
  }
  if (pid == 0) {
    sched_setaffinity(0, sizeof set, &set);
    return;
  }
  each_thread(pid, [&](const std::string& thread) {
    sched_setaffinity(atoi(thread.substr(thread.rfind('/') + 1).c_str()), sizeof set, &set);
  });
}

bool undisturbed(const Window& window) { return window.waited_s <= 20e-6 + 0.01 * window.seconds; }

}  // namespace khost::judge
