// SHA-256 (FIPS 180-4) of a byte string, as 64 lower-case hex digits: names of artefacts, tasks and scripts.
#pragma once

#include <string>
#include <string_view>

namespace khost {

std::string sha256_hex(std::string_view bytes);

}  // namespace khost
