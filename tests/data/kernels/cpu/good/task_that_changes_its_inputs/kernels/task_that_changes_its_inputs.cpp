#include "khost.h"

// The task works in place; what a candidate is given is what the task was given.
extern "C" int task_that_changes_its_inputs(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = x[i] * 2 + 1;
  }
  return 0;
}
KHOST_EXPORT(task_that_changes_its_inputs)
