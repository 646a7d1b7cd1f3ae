// The jail of a zygote: what it is told, what it sees and what it may use, by what its children are for.
#pragma once

#include <string>

#include "sandbox/jail/jail_spec.h"
#include "sandbox/judge/task/zygote.h"

namespace khost::judge {

// Without descriptors, which are the caller's. `gpu`: null for one without a device; a candidate's zygote has one.
// `debugged`: what it writes is shown.
sandbox::JailSpec zygote_jail(const PythonPlace& place, const std::string& name, Serves serves, const GpuView* gpu,
                              bool debugged);

}  // namespace khost::judge
