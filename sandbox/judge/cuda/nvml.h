// What NVML says about a GPU at this moment. Looked up at run time: without it there is nothing to say.
#pragma once

#include <string>

#include "host/base/json.h"

namespace khost::judge::gpu {

// {"sm_mhz", "memory_mhz", "celsius", "milliwatts", "clock_event_reasons"} of the GPU with this bus id;
// what cannot be asked is left out. Any thread.
Json nvml_state(const std::string& bus_id);

}  // namespace khost::judge::gpu
