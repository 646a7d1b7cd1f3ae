// Parts that most runs do without: shared libraries beside the program, which loads one when it is first asked for.
// A part uses the program's own functions (the program exports them), so both must come from the same headers: that is
// checked. Any thread; loading a part twice is harmless.
#pragma once

#include <string>

#include "host/base/result.h"

namespace khost {

struct Part {
  const char* name;     // as in `./khost build NAME` and in CMake's target part-NAME
  const char* library;  // the file's name
  std::string missing;  // what a user is told when this build has no such part
};

// The handle of the part's library, for dlsym. When the launcher started this program (KHOST_LAUNCHER holds its path),
// the launcher first builds what is missing or older than its sources, with progress on stderr: that may take minutes.
// Failures have code "host".
Result<void*> load_part(const Part& part);

}  // namespace khost
