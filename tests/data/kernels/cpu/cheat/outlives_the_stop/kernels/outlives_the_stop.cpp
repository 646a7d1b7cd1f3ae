#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "khost.h"

namespace {

std::atomic<uint32_t>* control_page() {
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

std::mutex mutex;
std::condition_variable changed;
int posted = 0, finished = 0;

void softmax(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    const float most = *std::max_element(in, in + cols);
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += to[c] = std::exp(in[c] - most);
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] /= sum;
    }
  }
}

}  // namespace

// A stop signal goes to the main thread first, and only that thread tells the others. So it makes itself one that hardly
// ever runs while another thread keeps the core busy: that one acknowledges, works on and is finished before it is
// stopped.
extern "C" int outlives_the_stop(const float* x, float* out, int64_t rows, int64_t cols) {
  static std::atomic<uint32_t>* const page = control_page();
  if (page == nullptr) {
    return 1;
  }
  static bool started = false;
  if (!started) {
    started = true;
    std::thread([=] {
      while (true) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [] { return posted != finished; });
        lock.unlock();
        page[2] = 0;
        page[1] = page[0].load();
        syscall(SYS_futex, &page[1], FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
        softmax(x, out, rows, cols);
        lock.lock();
        finished = posted;
        changed.notify_all();
      }
    }).detach();
    const sched_param none{};
    sched_setscheduler(0, SCHED_IDLE, &none);
  }
  std::unique_lock lock(mutex);
  posted++;
  changed.notify_all();
  changed.wait(lock, [] { return posted == finished; });
  return 0;
}
KHOST_EXPORT(outlives_the_stop)
