// The page through which the judge posts calls and a subject acknowledges them.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>

inline std::atomic<uint32_t>* control_page() {
  std::atomic<uint32_t>* found = nullptr;
  if (FILE* maps = std::fopen("/proc/self/maps", "r")) {
    char line[512];
    while (found == nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
      unsigned long begin = 0;
      if (std::strstr(line, "memfd:control") != nullptr && std::sscanf(line, "%lx", &begin) == 1) {
        found = reinterpret_cast<std::atomic<uint32_t>*>(begin);
      }
    }
    std::fclose(maps);
  }
  return found;
}

// Says that the call that was posted last is done.
inline void acknowledge(std::atomic<uint32_t>* page) {
  page[2] = 0;
  page[1] = page[0].load();
  syscall(SYS_futex, &page[1], FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

inline double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
