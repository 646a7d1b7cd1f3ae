// Compiled into every part: the headers that it was built from, compared by load_part.
#include "host/base/interface.h"

extern "C" {
extern const char* const khost_part_interface;
const char* const khost_part_interface = KHOST_INTERFACE;
}
