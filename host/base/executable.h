#pragma once

#include <string>

namespace khost {

// The folder of the running program, where the build and the installation put its other programs and its parts; "."
// when /proc does not say. Any thread.
std::string executable_dir();

}  // namespace khost
