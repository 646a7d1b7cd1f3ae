// SHA-256 (FIPS 180-4), as 64 lower-case hex digits: names of artefacts, tasks and scripts, and what downloads must be.
#pragma once

#include <string>
#include <string_view>

#include "host/base/result.h"

namespace khost {

std::string sha256_hex(std::string_view bytes);

// Reads the file a block at a time, so that its size does not matter. Failures name the file; code io.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace khost
