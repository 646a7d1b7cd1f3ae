#include "sandbox/jail/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string parent;
  bool v2 = false;
  bool memory = false;
  bool processes = false;
};

bool write_text(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  const ssize_t n = write(fd, text.data(), text.size());
  close(fd);
  return n == static_cast<ssize_t>(text.size());
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

// Groups are named khost-OWNER-NUMBER: those whose owner was killed are empty by now and can go.
void sweep(const std::string& parent) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    const int owner = name.rfind("khost-", 0) == 0 ? atoi(name.c_str() + 6) : 0;
    if (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH) {
      rmdir(entry.path().c_str());
    }
  }
}

// v1: every controller has a hierarchy, and ours is the group this process is in.
void add_v1(std::vector<Place>& places, const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "4:memory:/path", "3:cpu,cpuacct:/path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(first + 1, second - first - 1, controller) != 0) {
      continue;
    }
    const std::string mount = "/sys/fs/cgroup/" + controller;
    std::string parent = mount + line.substr(second + 1);
    while (parent.back() == '/') {
      parent.pop_back();
    }
    // in a container the path may be one of the host's, which does not exist here
    parent = exists(parent + "/cgroup.procs") ? parent : mount;
    if (access((parent + "/cgroup.procs").c_str(), W_OK) == 0) {
      places.push_back({parent, false, controller == "memory", controller == "pids"});
    }
  }
}

// v2: a group with processes cannot hand controllers to children, so ours lies at the top.
void add_v2(std::vector<Place>& places) {
  const std::string top = "/sys/fs/cgroup";
  if (!exists(top + "/cgroup.controllers")) {
    return;
  }
  write_text(top + "/cgroup.subtree_control", "+memory +pids");
  const std::string parent = top + "/khost";
  if (mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) {
    return;
  }
  if (write_text(parent + "/cgroup.subtree_control", "+memory +pids")) {
    places.push_back({parent, true, true, true});
  }
}

const std::vector<Place>& places() {
  static const std::vector<Place> found = [] {
    std::vector<Place> result;
    if (geteuid() == 0) {
      add_v1(result, "memory");
      add_v1(result, "pids");
      add_v2(result);
    }
    for (const Place& place : result) {
      sweep(place.parent);
    }
    return result;
  }();
  return found;
}

}  // namespace

std::unique_ptr<Cgroup> Cgroup::create(const Limits& limits) {
  static std::atomic<unsigned> number{0};
  const std::string name = "/khost-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  std::unique_ptr<Cgroup> group(new Cgroup);
  for (const Place& place : places()) {
    const std::string folder = place.parent + name;
    if (mkdir(folder.c_str(), 0755) != 0) {
      continue;
    }
    group->folders_.push_back(folder);
    if (place.memory) {
      write_text(folder + (place.v2 ? "/memory.max" : "/memory.limit_in_bytes"), std::to_string(limits.memory_bytes));
      write_text(folder + "/memory.swap.max", "0");
    }
    if (place.processes) {
      write_text(folder + "/pids.max", std::to_string(limits.processes + 1));  // and process 1 of the jail
    }
  }
  return group->folders_.empty() ? nullptr : std::move(group);
}

Cgroup::~Cgroup() {
  for (const std::string& folder : folders_) {
    for (int tries = 0; tries < 50 && rmdir(folder.c_str()) != 0 && errno == EBUSY; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

void Cgroup::put(pid_t pid) const {
  for (const std::string& folder : folders_) {
    write_text(folder + "/cgroup.procs", std::to_string(pid));
  }
}

}  // namespace khost::sandbox
