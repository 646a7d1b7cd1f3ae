#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "khost.h"

// Opens the inputs again, for writing, and makes them easy; then answers for the easy ones. Every way must be closed.
extern "C" int changes_its_inputs(const float* x, float* out, int64_t rows, int64_t cols) {
  const std::size_t bytes = rows * cols * sizeof(float);
  for (int fd = 3; fd < 16; fd++) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    char target[256] = {};
    readlink(path.c_str(), target, sizeof target - 1);
    if (std::strstr(target, "memfd:inputs") == nullptr) {
      continue;
    }
    const int again = open(path.c_str(), O_RDWR);
    void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
    if (map != MAP_FAILED) {
      std::memset(map, 0, bytes);
    }
    mprotect(const_cast<float*>(x), bytes, PROT_READ | PROT_WRITE);
    const std::string zeros(bytes, '\0');
    pwrite(again, zeros.data(), bytes, 0);
    ftruncate(again, 0);
    const int memory = open("/proc/self/mem", O_RDWR);
    pwrite(memory, zeros.data(), bytes, reinterpret_cast<off_t>(x));
  }
  for (int64_t i = 0; i < rows * cols; i++) {
    out[i] = x[i] == 0 ? 1.0f / static_cast<float>(cols) : 0;
  }
  return 0;
}
KHOST_EXPORT(changes_its_inputs)
