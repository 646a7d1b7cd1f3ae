#include "sandbox/jail/tree.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace khost::sandbox {
namespace {

constexpr int kMostPasses = 200;  // a fork bomb at its process limit is caught up with long before

// What proc(5) says of it behind its name, which may hold anything; empty when it is gone.
std::string stat_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos ? std::string() : line.substr(name_end + 1);
}

// Seconds after boot at which a process began; a large number when it is gone.
double began_s(pid_t pid) {
  const std::string stat = stat_of(pid);
  if (stat.empty()) {
    return 1e18;
  }
  std::istringstream fields(stat);
  std::string field;
  for (int i = 3; i <= 22; ++i) {
    fields >> field;
  }
  return static_cast<double>(atoll(field.c_str())) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

char state_of(pid_t pid) {
  const std::string stat = stat_of(pid);
  return stat.size() > 1 ? stat[1] : '\0';
}

// A running thread adds its share at the next tick or when it sleeps.
std::optional<double> processor_s(pid_t pid) {
  clockid_t clock;
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return std::nullopt;
  }
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::error_code error;
  // children belong to the thread that forked them
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) {
      found.push_back(child);
    }
  }
  return found;
}

void signal_descendants(pid_t root, int signal, double since_s) {
  std::set<pid_t> signalled;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    bool grown = false;
    std::vector<pid_t> open{root};
    while (!open.empty()) {
      const pid_t parent = open.back();
      open.pop_back();
      for (const pid_t child : children_of(parent)) {
        open.push_back(child);
        if (signalled.insert(child).second && (since_s <= 0 || began_s(child) >= since_s)) {
          ::kill(child, signal);
          grown = true;
        }
      }
    }
    if (!grown) {
      return;
    }
  }
}

}  // namespace khost::sandbox
