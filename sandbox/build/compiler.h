// What the builds of a candidate's files share: which compiler, how its words are shortened, and how what it left is
// taken out of a jail. Any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "host/base/result.h"
#include "sandbox/jail/jail_spec.h"

namespace khost::sandbox {

// g++, or for target cuda nvcc: the installed toolkit lies in /usr/local/cuda, which a jail sees, wherever PATH points.
std::string compiler_path(const std::string& target);

// Version of the compiler and, for -march=native, the processor. Asked once per process; empty when it does not run.
std::string machine_identity(const std::string& target);

// Paths of the jail made relative, whole lines in the middle left out beyond 6000 bytes.
std::string shortened(std::string text);

// Whether a compiler's text says that a part of it was killed and nothing else, or that it died without a word. By its
// jail's limit of memory, for one: sources that need more say so again.
bool tells_of_a_kill(std::string_view text);

// Runs a compiler in its jail and gives what it said, shortened. Codes: build (the same text), killed (the same, where
// a part of the compiler was killed, so that another try may build it), timeout, and those of run_in_jail.
Result<std::string> run_compiler(const JailSpec& spec, double timeout_s);

// What a jail left: a regular file of at most `most` bytes, reached without following a link.
Result<std::string> take_file(const std::filesystem::path& path, std::size_t most);

}  // namespace khost::sandbox
