#include "sandbox/jail/tree.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace khost::sandbox {
namespace {

constexpr int kMostPasses = 200;  // a fork bomb at its process limit is caught up with long before

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::error_code error;
  // children belong to the thread that forked them
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) {
      found.push_back(child);
    }
  }
  return found;
}

}  // namespace

void signal_descendants(pid_t root, int signal) {
  std::set<pid_t> signalled;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    bool grown = false;
    std::vector<pid_t> open{root};
    while (!open.empty()) {
      const pid_t parent = open.back();
      open.pop_back();
      for (const pid_t child : children_of(parent)) {
        open.push_back(child);
        if (signalled.insert(child).second) {
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
