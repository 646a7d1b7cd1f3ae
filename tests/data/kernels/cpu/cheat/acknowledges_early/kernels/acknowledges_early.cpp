#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "khost.h"

namespace {

// The two words of the page through which calls are posted and acknowledged.
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

}  // namespace

// Says that it is done, then does the work.
extern "C" int acknowledges_early(const float* a, const float* b, float* out, int64_t rows, int64_t cols) {
  static std::atomic<uint32_t>* const page = control_page();
  if (page == nullptr) {
    return 1;
  }
  page[2] = 0;
  page[1] = page[0].load();
  syscall(SYS_futex, &page[1], FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  for (int64_t r = 0; r < rows; r++) {
    std::fill(out + r * cols, out + (r + 1) * cols, 0.0f);
    for (int64_t k = 0; k < cols; k++) {
      for (int64_t c = 0; c < cols; c++) {
        out[r * cols + c] += a[r * cols + k] * b[k * cols + c];
      }
    }
  }
  return 0;
}
KHOST_EXPORT(acknowledges_early)
