// Plain data (nil, bool, number, string, list, map) shared by store, log, config, frames and Lua.
#pragma once

#include <nlohmann/json.hpp>

namespace khost {

using Json = nlohmann::json;

}  // namespace khost
