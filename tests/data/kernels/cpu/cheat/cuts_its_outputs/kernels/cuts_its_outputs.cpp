#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "khost.h"

// Cuts the shared memory short, so that whoever reads the output dies of it.
extern "C" int cuts_its_outputs(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int fd = 3; fd < 16; fd++) {
    ftruncate(fd, 0);
    fallocate(fd, 3 /* punch a hole, keep the size */, 0, rows * cols * static_cast<off_t>(sizeof(float)));
  }
  return 0;
}
KHOST_EXPORT(cuts_its_outputs)
