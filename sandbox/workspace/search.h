// Regular expressions (PCRE2) for the agent's Grep and BashOutput: bounded in time, so that a pattern chosen by a
// policy cannot stop the host. Any thread may call.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/result.h"

namespace khost::sandbox {

struct PatternOptions {
  bool ignore_case = false;
  bool multiline = false;  // the dot matches line ends, and a match may span lines
};

class Pattern {
 public:
  // code "bad_input" with the position of the mistake
  static Result<Pattern> compile(const std::string& pattern, const PatternOptions& options);

  // Lines (from 1, ascending) that hold a part of a match; "limit" when matching takes too many steps.
  Result<std::vector<size_t>> matching_lines(std::string_view text) const;

 private:
  struct Code;
  Pattern(std::shared_ptr<const Code> code, bool multiline) : code_(std::move(code)), multiline_(multiline) {}
  std::shared_ptr<const Code> code_;
  bool multiline_;
};

// The lines of `text` that match, each with its end.
Result<std::string> filter_lines(const std::string& text, const std::string& pattern);

}  // namespace khost::sandbox
