// Plain data (nil, bool, number, string, list, map) shared by store, log, config, frames and Lua.
#pragma once

#include "host/base/json_fwd.h"

#include <nlohmann/json.hpp>
