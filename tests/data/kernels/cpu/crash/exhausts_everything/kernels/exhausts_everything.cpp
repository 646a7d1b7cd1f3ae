#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include <system_error>
#include <thread>

#include "khost.h"
#include "softmax.h"

namespace {

void fill(const char* path) {
  static char bytes[1 << 20];
  const int file = open(path, O_CREAT | O_WRONLY, 0600);
  for (int i = 0; i < 2000 && write(file, bytes, sizeof bytes) > 0; i++) {
  }
}

void exhaust() {
  for (int i = 0; i < 300; i++) {
    if (fork() == 0) {
      while (true) {
        pause();
      }
    }
  }
  try {
    for (int i = 0; i < 70; i++) {
      std::thread([] { pause(); }).detach();
    }
  } catch (const std::system_error&) {  // no thread was left: that is what it wants
  }
  for (int i = 0; i < 300 && (inotify_init() >= 0 || open("/dev/null", O_RDONLY) >= 0); i++) {
  }
  fill("/tmp/full");
  fill("/dev/shm/full");
  for (int i = 0; i < 20; i++) {
    if (mmap(nullptr, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) ==
        MAP_FAILED) {
      break;
    }
  }
}

}  // namespace

// Takes all processes, threads, descriptors, file space and memory that it is given, then does its work.
extern "C" int exhausts_everything(const float* x, float* out, int64_t rows, int64_t cols) {
  static const bool once = (exhaust(), true);
  softmax_rows(x, out, rows, cols);
  return once ? 0 : 1;
}
KHOST_EXPORT(exhausts_everything)
