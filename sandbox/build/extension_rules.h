// What an extension of a candidate in Python may ask its compiler for, and what it may call. Pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "host/base/result.h"

namespace khost::sandbox {

// Not empty, short, and of letters, digits and the characters of `more`.
bool plain(const std::string& text, const char* more);

// Of a candidate's flags those that only say how its own code is compiled.
std::vector<std::string> harmless_flags(const std::vector<std::string>& flags, bool cuda);
std::vector<std::string> harmless_libraries(const std::vector<std::string>& flags);

// Whether all errors in a compiler's words are mistakes that no header mends: a missing semicolon, or a name that
// `in_headers` does not know.
bool own_mistakes(const std::string& words, const std::function<bool(const std::string&)>& in_headers);

// The operator of torch behind a symbol ("matmul" of at::_ops::matmul::call), or empty.
std::string operator_of(const std::string& symbol);

// violation when the library calls operators of torch that compute; bad_input when the bytes are no library.
Status admit_extension(const std::string& bytes);

}  // namespace khost::sandbox
