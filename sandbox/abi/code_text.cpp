#include "sandbox/abi/code_text.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

namespace khost::sandbox {
namespace {

void blank(std::string& text, std::size_t from, std::size_t to) {
  for (std::size_t k = from; k < std::min(to, text.size()); k++) {
    text[k] = text[k] == '\n' ? '\n' : ' ';
  }
}

// End of the literal that begins at the quote `i`, behind its closing quote.
std::size_t literal_end(const std::string& source, std::size_t i) {
  if (source[i] == '"' && i > 0 && source[i - 1] == 'R') {  // R"mark(…)mark"
    const std::size_t open = i + source.substr(i, 18).find('(');
    if (open >= i) {  // a mark has at most 16 bytes
      const std::size_t close = source.find(")" + source.substr(i + 1, open - i - 1) + "\"", open);
      return close == std::string::npos ? source.size() : close + (open - i) + 1;
    }
  }
  std::size_t end = i + 1;
  while (end < source.size() && source[end] != source[i] && source[end] != '\n') {
    end += source[end] == '\\' ? 2 : 1;
  }
  return end + 1;
}

// A group of #if … #endif: whether the branch at hand may be compiled, and whether a later one may.
struct Branch {
  bool outer;
  bool active;
  bool later;
};

// What "#if CONDITION" says without macros being known: 0 never, 1 always, nothing otherwise.
std::optional<bool> condition_of(const std::string& text) {
  const std::string value = trimmed(text);
  if (value == "0" || value == "false" || (value.rfind("0 &&", 0) == 0 && value.find("||") == std::string::npos)) {
    return false;
  }
  return value == "1" || value == "true" ? std::optional<bool>(true) : std::nullopt;
}

void take_directive(const std::string& line, std::vector<Branch>& branches) {
  const std::string text = trimmed(line.substr(line.find('#') + 1));
  const std::string name = text.substr(0, std::find_if_not(text.begin(), text.end(), word) - text.begin());
  const bool active = branches.empty() || branches.back().active;
  if (name == "if" || name == "ifdef" || name == "ifndef") {
    const std::optional<bool> known = name == "if" ? condition_of(text.substr(2)) : std::nullopt;
    branches.push_back({active, active && known.value_or(true), !known.value_or(false)});
  } else if (branches.empty()) {
    return;
  } else if (name == "endif") {
    branches.pop_back();
  } else if (name == "elif" || name == "else") {
    Branch& branch = branches.back();
    const std::optional<bool> known = name == "else" ? std::nullopt : condition_of(text.substr(4));
    branch.active = branch.outer && branch.later && known.value_or(true);
    branch.later = branch.later && !known.value_or(false);
  }
}

}  // namespace

bool word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

bool space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

std::string trimmed(const std::string& text) {
  std::size_t begin = 0, end = text.size();
  while (begin < end && space(text[begin])) {
    begin++;
  }
  while (end > begin && space(text[end - 1])) {
    end--;
  }
  return text.substr(begin, end - begin);
}

std::string without_comments(const std::string& source) {
  std::string out = source;
  for (std::size_t i = 0; i < out.size(); i++) {
    if (source.compare(i, 2, "//") == 0) {
      std::size_t end = source.find('\n', i);
      while (end != std::string::npos && end > 0 && source[end - 1] == '\\') {
        end = source.find('\n', end + 1);
      }
      end = std::min(end, source.size());
      blank(out, i, end);
      i = end;
    } else if (source.compare(i, 2, "/*") == 0) {
      const std::size_t end = std::min(source.find("*/", i + 2), source.size());
      blank(out, i, end + 2);
      i = end + 1;
    } else if (source[i] == '"' || (source[i] == '\'' && (i == 0 || !word(source[i - 1])))) {
      const std::size_t end = literal_end(source, i);
      std::size_t before = i;
      while (before > 0 && space(source[before - 1])) {
        before--;
      }
      const bool linkage =
          source.compare(i, 3, "\"C\"") == 0 && before >= 6 && source.compare(before - 6, 6, "extern") == 0;
      blank(out, i, end);
      if (linkage) {
        out.replace(before - 6, kLinkage.size(), kLinkage);
        blank(out, before + 1, i);
      }
      i = end - 1;
    }
  }
  return out;
}

std::string without_directives(const std::string& code) {
  std::string out = code;
  std::vector<Branch> branches;
  for (std::size_t begin = 0; begin < code.size();) {
    std::size_t end = std::min(code.find('\n', begin), code.size());
    const std::size_t first = code.find_first_not_of(" \t\r", begin);
    const bool directive = first < end && code[first] == '#';
    const auto continued = [&] {
      const std::size_t last = code.find_last_not_of('\r', end - 1);
      return end > begin && end < code.size() && last != std::string::npos && code[last] == '\\';
    };
    while (directive && continued()) {
      end = std::min(code.find('\n', end + 1), code.size());
    }
    if (directive) {
      take_directive(code.substr(begin, end - begin), branches);
    }
    if (directive || (!branches.empty() && !branches.back().active)) {
      blank(out, begin, end);
    }
    begin = end + 1;
  }
  return out;
}

}  // namespace khost::sandbox
