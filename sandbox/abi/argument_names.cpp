#include "sandbox/abi/argument_names.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "sandbox/abi/code_text.h"

namespace khost::sandbox {
namespace {

constexpr std::size_t kMostLookedAt = std::size_t{16} << 20;  // bytes, many times what a file that is read may have

Failure bad(const std::string& what) {
  return {"plan: " + what, "bad_input"};
}

// Position of the bracket that closes the one at `open`.
std::size_t closing(const std::string& code, std::size_t open) {
  const char closes = code[open] == '(' ? ')' : code[open] == '[' ? ']' : '}';
  int depth = 0;
  for (std::size_t at = open; at < code.size(); at++) {
    depth += code[at] == code[open] ? 1 : code[at] == closes ? -1 : 0;
    if (depth == 0) {
      return at;
    }
  }
  return code.size();
}

std::size_t skipped(const std::string& code, std::size_t at) {
  while (at < code.size() && space(code[at])) {
    at++;
  }
  return at;
}

// What follows the arguments of a function, behind attributes and noexcept: '{', ';' or anything else. `at` becomes its
// position.
char follows(const std::string& code, std::size_t& at) {
  for (at = skipped(code, at); at < code.size(); at = skipped(code, at)) {
    if (code[at] == '[' || code[at] == '(') {
      at = closing(code, at) + 1;
    } else if (word(code[at])) {  // noexcept, __attribute__, a macro
      while (at < code.size() && word(code[at])) {
        at++;
      }
    } else if (code.compare(at, 2, "->") == 0) {
      at = code.find_first_of("{;", at);
    } else {
      return code[at];
    }
  }
  return '\0';
}

enum class Scope { linkage, space, other };

// What a brace opens, by the text between it and what ended before.
Scope scope_of(const std::string& head) {
  if (head.find("namespace") != std::string::npos) {
    return Scope::space;
  }
  const std::string text = trimmed(head);
  return text.size() >= kLinkage.size() && text.compare(text.size() - kLinkage.size(), kLinkage.size(), kLinkage) == 0
             ? Scope::linkage
             : Scope::other;
}

struct Found {
  bool definition;
  int rank;  // 0: extern "C", 1: of the file, 2: in a namespace
  std::vector<std::string> names;
};

// Splits at commas outside brackets.
std::vector<std::string> split_arguments(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += std::string_view("(<[{").find(c) != std::string_view::npos ? 1 : 0;
    depth -= std::string_view(")>]}").find(c) != std::string_view::npos ? 1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The name in the declaration of one argument; "" where it has none.
std::string name_in(std::string text) {
  static const std::set<std::string> kTypes = {
      "void",     "bool",     "char",     "short",  "int",          "long",       "float",   "double",  "signed",
      "const",    "volatile", "unsigned", "auto",   "int8_t",       "int16_t",    "int32_t", "int64_t", "uint8_t",
      "uint16_t", "uint32_t", "uint64_t", "size_t", "__restrict__", "__restrict", "restrict"};
  text = trimmed(text.substr(0, text.find('=')));
  for (;;) {  // attributes and sizes of arrays behind the name
    if (!text.empty() && text.back() == ']') {
      const std::size_t open = text.rfind(text.size() > 1 && text[text.size() - 2] == ']' ? "[[" : "[");
      if (open == std::string::npos) {
        break;
      }
      text.resize(open);
      while (!text.empty() && space(text.back())) {  // in place: there may be many
        text.pop_back();
      }
    } else if (const std::size_t at = text.find("__attribute__"); at != std::string::npos && at > 0) {
      text = trimmed(text.substr(0, at));
    } else {
      break;
    }
  }
  std::size_t begin = text.size();
  while (begin > 0 && word(text[begin - 1])) {
    begin--;
  }
  const std::string name = text.substr(begin);
  const std::string before = trimmed(text.substr(0, begin));
  const bool qualified = before.size() >= 2 && before.compare(before.size() - 2, 2, "::") == 0;
  const bool typed = std::any_of(before.begin(), before.end(), word) && before != "const" && before != "struct";
  return name.empty() || qualified || !typed || kTypes.count(name) > 0 ? "" : name;
}

std::vector<std::string> names_of(const std::string& arguments) {
  std::vector<std::string> names;
  const std::string text = trimmed(arguments);
  if (text.empty() || text == "void") {
    return names;
  }
  for (const std::string& part : split_arguments(text)) {
    names.push_back(name_in(part));
  }
  return names;
}

// Goes through a file's code once and notes what looks like the function. Each of those is looked at on its own, and a
// stranger's file may be full of them: they share `budget`, bytes that may be looked at.
class Reader {
 public:
  Reader(const std::string& source, std::string symbol, std::size_t& budget)
      : code_(without_directives(without_comments(source))), symbol_(std::move(symbol)), budget_(budget) {}

  std::vector<Found> read() {
    std::vector<Found> found;
    std::vector<Scope> open;
    std::size_t others = 0;  // of them that are neither a namespace nor a linkage
    std::size_t begin = 0;   // of the declaration at hand
    for (std::size_t at = 0; at < code_.size() && budget_ > 0; at++) {
      const char c = code_[at];
      if (c == '{') {
        open.push_back(scope_of(code_.substr(begin, at - begin)));
        others += open.back() == Scope::other ? 1 : 0;
      } else if (c == '}' && !open.empty()) {
        others -= open.back() == Scope::other ? 1 : 0;
        open.pop_back();
      }
      if (c == '{' || c == '}' || c == ';') {
        begin = at + 1;
      } else if (others == 0 && is_symbol(at)) {
        note(at, begin, open, found);
      }
    }
    return found;
  }

 private:
  bool is_symbol(std::size_t at) const {
    const std::size_t end = at + symbol_.size();
    return code_.compare(at, symbol_.size(), symbol_) == 0 && (at == 0 || !word(code_[at - 1])) &&
           (end >= code_.size() || !word(code_[end]));
  }

  void spend(std::size_t bytes) { budget_ -= std::min(budget_, bytes); }

  void note(std::size_t at, std::size_t begin, const std::vector<Scope>& open, std::vector<Found>& found) {
    const std::size_t paren = skipped(code_, at + symbol_.size());
    spend(paren - begin + open.size());
    const std::string head = code_.substr(begin, at - begin);
    const std::string before = trimmed(head);
    if (paren >= code_.size() || code_[paren] != '(' || before.empty() || head.find("template") != std::string::npos ||
        head.find('=') != std::string::npos || !returns_int(head) ||
        !(word(before.back()) || before.back() == ')' || before.back() == ']')) {
      return;
    }
    const std::size_t close = closing(code_, paren);
    std::size_t end = close + 1;
    const char next = close < code_.size() ? follows(code_, end) : '\0';
    spend(end - paren);
    if (next != '{' && next != ';') {
      return;
    }
    const bool linkage =
        head.find(kLinkage) != std::string::npos || std::find(open.begin(), open.end(), Scope::linkage) != open.end();
    const bool inside = std::find(open.begin(), open.end(), Scope::space) != open.end();
    found.push_back({next == '{', linkage ? 0 : inside ? 2 : 1, names_of(code_.substr(paren + 1, close - paren - 1))});
  }

  // Launchers return int, by this name or as int32_t, or auto with int behind the arguments.
  static bool returns_int(const std::string& head) {
    for (std::size_t at = 0; at < head.size();) {
      std::size_t end = at;
      while (end < head.size() && word(head[end])) {
        end++;
      }
      const std::string type = head.substr(at, end - at);
      if (type == "int" || type == "int32_t" || type == "auto") {
        return true;
      }
      at = std::max(end, at + 1);
    }
    return false;
  }

  std::string code_;
  std::string symbol_;
  std::size_t& budget_;
};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + (name.empty() ? std::string("without a name") : name);
  }
  return "(" + text + ")";
}

}  // namespace

Result<std::vector<std::string>> argument_names(const std::vector<std::string>& sources, const std::string& symbol,
                                                std::optional<std::size_t> count) {
  std::vector<Found> prototypes;
  std::vector<Found> others;
  std::size_t budget = kMostLookedAt;
  for (const std::string& source : sources) {
    std::vector<Found> definitions;
    std::vector<Found> all = Reader(source, symbol, budget).read();
    if (budget == 0) {
      return bad("too much in the files looks like a definition of '" + symbol +
                 "' to read the names of its arguments; write model_new.py");
    }
    for (Found& found : all) {
      const bool fits = !count || found.names.size() == *count;
      (!fits ? others : found.definition ? definitions : prototypes).push_back(std::move(found));
    }
    const auto best = std::min_element(definitions.begin(), definitions.end(),
                                       [](const Found& a, const Found& b) { return a.rank < b.rank; });
    if (best == definitions.end()) {
      continue;
    }
    for (const Found& other : definitions) {
      if (other.rank == best->rank && other.names != best->names) {
        return bad("'" + symbol + "' is defined more than once, with the arguments " + listed(best->names) + " and " +
                   listed(other.names) + "; keep one definition, or write model_new.py");
      }
    }
    return best->names;
  }
  for (const Found& prototype : prototypes) {
    if (std::find(prototype.names.begin(), prototype.names.end(), "") == prototype.names.end()) {
      return prototype.names;
    }
  }
  if (!prototypes.empty()) {
    return bad("only a prototype of '" + symbol + "' is to be seen, and its arguments have no names: " +
               listed(prototypes[0].names) + ". Write its definition without macros, or write model_new.py");
  }
  if (!others.empty()) {
    return bad("'int " + symbol + listed(others[0].names) + "' takes " + std::to_string(others[0].names.size()) +
               " arguments, the launcher that was compiled " + std::to_string(*count) +
               "; write its definition without macros, or write model_new.py");
  }
  return bad("no 'int " + symbol + "(…) {…}' in the kernel file; write it without macros, or write model_new.py");
}

}  // namespace khost::sandbox
