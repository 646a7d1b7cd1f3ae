// `khost-subject --selftest`: every kind of argument reaches a launcher as the compiler passes it, and turns
// come and go through a shared page. For `doctor` and the tests; 0 when all is well, else 1 and a line on
// stderr.
#pragma once

namespace khost::sandbox {

int selftest();

}  // namespace khost::sandbox
