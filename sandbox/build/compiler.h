// What the builds of a candidate's files share: which compiler, how its words are shortened, and how what it left is
// taken out of a jail. Any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "host/base/result.h"

namespace khost::sandbox {

// g++, or for target cuda nvcc: the installed toolkit lies in /usr/local/cuda, which a jail sees, wherever PATH points.
std::string compiler_path(const std::string& target);

// Version of the compiler and, for -march=native, the processor. Asked once per process; empty when it does not run.
std::string machine_identity(const std::string& target);

// Paths of the jail made relative, whole lines in the middle left out beyond 6000 bytes.
std::string shortened(std::string text);

// What a jail left: a regular file of at most `most` bytes, reached without following a link.
Result<std::string> take_file(const std::filesystem::path& path, std::size_t most);

}  // namespace khost::sandbox
