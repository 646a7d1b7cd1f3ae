// The name Json for headers that only declare functions with it: reading all of nlohmann/json.hpp costs more than a
// second of every file that includes it.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace khost {

using Json = nlohmann::json;

}  // namespace khost
