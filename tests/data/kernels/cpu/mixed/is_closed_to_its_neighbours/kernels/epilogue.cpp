#include <sys/prctl.h>

#include <algorithm>

#include "khost.h"

namespace {

// Runs while the library is loaded. Where a process may be dumped, others of its user open its memory.
const bool open_to_others = prctl(PR_GET_DUMPABLE) == 1;

}  // namespace

extern "C" int epilogue(float* y, const float* scale, const float* shift, int64_t images, int64_t filters,
                        int64_t pixels) {
  for (int64_t i = 0; i < images * filters; i++) {
    const float factor = scale[i % filters], summand = shift[i % filters];
    for (int64_t p = 0; p < pixels; p++) {
      y[i * pixels + p] = std::min(6.0f, std::max(0.0f, y[i * pixels + p] * factor + summand));
    }
  }
  return open_to_others ? 9 : 0;
}
KHOST_EXPORT(epilogue)
