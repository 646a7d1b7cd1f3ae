// What an extension of a candidate in Python may ask its compiler for, and what it may call. Pure functions.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "host/base/result.h"

namespace khost::sandbox {

// Not empty, short, and of letters, digits and the characters of `more`.
bool plain(const std::string& text, const char* more);

// Of a candidate's flags those that only say how its own code is compiled.
std::vector<std::string> harmless_flags(const std::vector<std::string>& flags, bool cuda);
std::vector<std::string> harmless_libraries(const std::vector<std::string>& flags);

// Whether a compiler's words may be about what the light headers lack, and not about the candidate's own mistakes.
bool may_lack_torch(const std::string& words);

// The operator of torch behind a symbol ("matmul" of at::_ops::matmul::call), or empty.
std::string operator_of(const std::string& symbol);

// policy when the library calls operators of torch that compute; bad_input when the bytes are no library.
Status admit_extension(const std::string& bytes);

}  // namespace khost::sandbox
