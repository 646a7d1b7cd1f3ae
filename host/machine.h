// What this machine has. For `khost doctor` and for reports.
#pragma once

#include <string>

#include "host/base/json.h"

namespace khost {

// {cores, cores_online, memory_bytes, memory_available_bytes, memory_limit_bytes?, disk_free_bytes, kernel, machine,
// host, user_id}; the disk is the one that holds `path`. Never fails: what cannot be read is absent.
Json machine_facts(const std::string& path);

}  // namespace khost
