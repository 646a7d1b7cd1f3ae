#include "host/machine.h"

#include <sched.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <optional>

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

}  // namespace khost
