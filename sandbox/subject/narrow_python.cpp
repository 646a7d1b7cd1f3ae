// What khost-subject refuses to a candidate, for a Python process that loads a candidate's library instead.
#include <errno.h>

#include "sandbox/subject/narrow.h"

extern "C" {

// For all threads of the calling process, for good. 0, or an error of errno.
__attribute__((visibility("default"))) int khost_narrow() {
  return khost::sandbox::narrow() ? 0 : errno;
}
}
