#include "sandbox/workspace/search.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

namespace khost::sandbox {
namespace {

constexpr uint32_t kMostSteps = 200000;  // of backtracking in one match

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Result<Pattern> Pattern::compile(const std::string& pattern, const PatternOptions& options) {
  int error = 0;
  PCRE2_SIZE at = 0;
  // Text may be invalid UTF-8, so bytes are matched; MATCH_INVALID_UTF makes such bytes match nothing.
  const uint32_t flags = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_MULTILINE |
                         (options.ignore_case ? PCRE2_CASELESS : 0) | (options.multiline ? PCRE2_DOTALL : 0);
  auto compiled = std::make_shared<Code>();
  compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), flags, &error, &at, nullptr);
  if (compiled->code == nullptr) {
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return Failure{"pattern, at character " + std::to_string(at) + ": " + reinterpret_cast<const char*>(text),
                   "bad_input"};
  }
  compiled->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(compiled->context, kMostSteps);
  pcre2_set_depth_limit(compiled->context, kMostSteps);
  return Pattern(compiled, options.multiline);
}

Result<std::vector<size_t>> Pattern::matching_lines(std::string_view text) const {
  std::vector<size_t> lines;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), &pcre2_match_data_free);
  size_t line = 1;
  size_t line_begin = 0;
  while (line_begin < text.size()) {
    // Without multiline each line is a subject of its own: what a line matches does not depend on its neighbours.
    const size_t line_end = std::min(text.find('\n', line_begin), text.size());
    const size_t subject_end = multiline_ ? text.size() : line_end;
    const size_t subject_begin = multiline_ ? 0 : line_begin;
    const int found =
        pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data() + subject_begin), subject_end - subject_begin,
                    line_begin - subject_begin, 0, match.get(), code_->context);
    if (found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_DEPTHLIMIT || found == PCRE2_ERROR_JIT_STACKLIMIT) {
      return Failure{"the pattern takes too long on this text; make it simpler", "limit"};
    }
    if (multiline_ && found < 0) {
      break;
    }
    if (found < 0) {
      line_begin = line_end + 1;
      ++line;
      continue;
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(match.get());
    const size_t first = subject_begin + offsets[0];
    const size_t last = std::max(subject_begin + offsets[1], first + 1) - 1;
    for (size_t end = line_end; line_begin < text.size();) {
      if (first <= end && last >= line_begin) {
        lines.push_back(line);
      }
      line_begin = end + 1;
      ++line;
      if (line_begin > last) {
        break;
      }
      end = std::min(text.find('\n', line_begin), text.size());
    }
  }
  return lines;
}

Result<std::string> filter_lines(const std::string& text, const std::string& pattern) {
  const Result<Pattern> compiled = Pattern::compile(pattern, {});
  if (!compiled) {
    return compiled.failure();
  }
  const Result<std::vector<size_t>> lines = compiled.value().matching_lines(text);
  if (!lines) {
    return lines.failure();
  }
  std::string kept;
  size_t line = 1;
  size_t begin = 0;
  for (const size_t wanted : lines.value()) {
    for (; line < wanted; ++line) {
      begin = text.find('\n', begin) + 1;
    }
    kept += text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin) + "\n";
  }
  return kept;
}

}  // namespace khost::sandbox
