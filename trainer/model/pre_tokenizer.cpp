#include "trainer/model/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

namespace khost::trainer {
namespace {

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Llama 3 takes digits in threes, Qwen 2 and 3 one by one; else their patterns are the same.
const char* const kCl100kHead = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
const char* const kCl100kTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Unicode's White_Space. PCRE2's own \s has U+180E besides, which is none since Unicode 6.3.
const char* const kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// Writes the spaces of a pattern out.
std::string spell_spaces(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? kSpace : "[" + std::string(kSpace) + "]";
      } else if (next == 'S' && !in_class) {
        out += "[^" + std::string(kSpace) + "]";
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    in_class = c == '[' ? true : (c == ']' ? false : in_class);
    out += c;
  }
  return out;
}

Json split(const std::string& pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}}}};
}

Failure bad(const std::string& message) {
  return Failure{"pre_tokenizer: " + message, "bad_input"};
}

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchFree {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

// A pattern whose matches, and the text between them, become pieces.
struct PreTokenizer::Step {
  std::unique_ptr<pcre2_code, CodeFree> code;
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;

Result<std::shared_ptr<const PreTokenizer>> PreTokenizer::open(const Json& json) {
  std::shared_ptr<PreTokenizer> made(new PreTokenizer);
  try {
    if (const Status added = made->add(json); !added) {
      return added.failure();
    }
  } catch (const Json::exception& error) {
    return bad(error.what());
  }
  return std::shared_ptr<const PreTokenizer>(std::move(made));
}

Status PreTokenizer::add(const Json& json) {
  if (json.is_null()) {
    return ok();
  }
  const std::string type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const Json& part : json.at("pretokenizers")) {
      if (const Status added = add(part); !added) {
        return added;
      }
    }
    return ok();
  }
  if (type == "Digits") {
    return add_pattern(json.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  }
  if (type == "ByteLevel") {
    if (json.value("add_prefix_space", true)) {
      return bad("ByteLevel with add_prefix_space is not supported");
    }
    return json.value("use_regex", true) ? add_pattern(kGpt2Pattern) : ok();
  }
  if (type == "Split") {
    const Json& pattern = json.at("pattern");
    if (json.value("behavior", "") != "Isolated" || json.value("invert", false) || !pattern.contains("Regex")) {
      return bad("Split is supported with a Regex, behavior Isolated and without invert");
    }
    return add_pattern(pattern["Regex"].get<std::string>());
  }
  return bad("type '" + type + "' is not supported, expected ByteLevel, Digits, Split or Sequence");
}

// MATCH_INVALID_UTF: bytes that are no UTF-8 match nothing and so become pieces of their own.
Status PreTokenizer::add_pattern(const std::string& given) {
  const std::string pattern = spell_spaces(given);
  int error = 0;
  PCRE2_SIZE at = 0;
  Step step;
  step.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr));
  if (!step.code) {
    unsigned char text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return bad("pattern " + given + ": " + reinterpret_cast<const char*>(text));
  }
  pcre2_jit_compile(step.code.get(), PCRE2_JIT_COMPLETE);
  steps_.push_back(std::move(step));
  return ok();
}

std::vector<std::string_view> PreTokenizer::cut(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (!text.empty()) {
    pieces.push_back(text);
  }
  for (const Step& step : steps_) {
    std::vector<std::string_view> finer;
    const std::unique_ptr<pcre2_match_data, MatchFree> match(
        pcre2_match_data_create_from_pattern(step.code.get(), nullptr));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    for (const std::string_view piece : pieces) {
      size_t done = 0;
      size_t from = 0;
      while (from < piece.size() && pcre2_match(step.code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()),
                                                piece.size(), from, 0, match.get(), nullptr) > 0) {
        if (range[1] <= range[0]) {  // an empty match moves on by a byte
          from = range[1] + 1;
          continue;
        }
        if (range[0] > done) {
          finer.push_back(piece.substr(done, range[0] - done));
        }
        finer.push_back(piece.substr(range[0], range[1] - range[0]));
        done = from = range[1];
      }
      if (done < piece.size()) {
        finer.push_back(piece.substr(done));
      }
    }
    pieces = std::move(finer);
  }
  return pieces;
}

Json default_pre_tokenizer() {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Digits"}, {"individual_digits", true}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}}}};
}

Result<Json> named_pre_tokenizer(const std::string& name) {
  if (name == "smollm") {
    return default_pre_tokenizer();
  }
  if (name == "gpt-2") {
    return Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  }
  if (name == "llama-bpe") {
    return split(std::string(kCl100kHead) + R"(\p{N}{1,3})" + kCl100kTail);
  }
  if (name == "qwen2") {
    return split(std::string(kCl100kHead) + R"(\p{N})" + kCl100kTail);
  }
  return bad("'" + name + "' is not known, expected smollm, gpt-2, llama-bpe or qwen2");
}

}  // namespace khost::trainer
