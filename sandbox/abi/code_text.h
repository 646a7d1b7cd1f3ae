// C++ source text without what is no code. Each takes time in proportion to the text. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace khost::sandbox {

// What stands in the code for the linkage extern "C", whose literal is blanked.
inline constexpr std::string_view kLinkage = "externC";

bool word(char c);   // of a name
bool space(char c);  // of any kind
std::string trimmed(const std::string& text);

// Comments and literals become blanks; extern "C" becomes one word.
std::string without_comments(const std::string& source);
// Preprocessor lines, and what they leave out for certain, become blanks.
std::string without_directives(const std::string& code);

}  // namespace khost::sandbox
