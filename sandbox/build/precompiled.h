// The headers that CPU kernels begin with, precompiled once per machine: reading <cmath> as C++20 is four fifths of
// what a small kernel's build costs (0.5 s of processor time without, 0.13 s with).
//
// The compiler takes such a file only where it may: as the first include of a source, for the same flags;
// else, and when none could be made, it reads the headers as ever. The code that comes out is the same.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace khost::sandbox {

struct HeaderRequest {
  std::string compiler;
  std::vector<std::string> flags;
  std::map<std::string, std::string> files;  // path -> text: headers of ours, and what they include
  std::string identity;                      // of the compiler and the processor
  std::string cache_dir;
};

// The folder that holds cmath.gch and, for each file in kernels/, NAME.gch; made in a jail when it is not there, which
// takes about a second a header. Empty when that fails.
std::string precompiled_headers(const HeaderRequest& request);

}  // namespace khost::sandbox
