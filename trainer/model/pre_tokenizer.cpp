#include "trainer/model/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

namespace khost::trainer {
namespace {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Failure bad(const std::string& message) { return Failure{"pre_tokenizer: " + message, "bad_input"}; }

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
Status PreTokenizer::add_pattern(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  Step step;
  step.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr));
  if (!step.code) {
    unsigned char text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return bad("pattern " + pattern + ": " + reinterpret_cast<const char*>(text));
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

}  // namespace khost::trainer
