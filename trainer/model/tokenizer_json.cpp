// tokenizer.json in and out.
#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>

#include "host/base/json_text.h"
#include "trainer/learn/checkpoint.h"
#include "trainer/model/tokenizer.h"

namespace khost::trainer {
namespace {

void append_utf8(std::string& out, int code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Printable Latin-1 bytes stand for themselves, the others for the characters from 256 on, in byte order.
std::array<int, 256> printable_codes() {
  std::array<int, 256> codes = {};
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    codes[static_cast<size_t>(byte)] = printable ? byte : next++;
  }
  return codes;
}

const std::array<int, 256>& codes() {
  static const std::array<int, 256> table = printable_codes();
  return table;
}

std::runtime_error bad(const std::string& message) {
  return std::runtime_error(message);
}

void refuse_unknown(const Json& json) {
  const Json& model = json.at("model");
  if (model.value("type", "BPE") != "BPE") {
    throw bad("model type " + model["type"].get<std::string>() + ", expected BPE");
  }
  if (model.value("byte_fallback", false)) {
    throw bad("byte_fallback is not supported, expected a byte-level vocabulary");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const auto affix = model.find(key); affix != model.end() && !affix->is_null() && *affix != "") {
      throw bad(std::string("model.") + key + " is not supported");
    }
  }
}

// A number that is stored in fewer bits than the file has would become another token's.
int32_t token_id(const Json& value) {
  constexpr int64_t kMostIds = 1 << 24;
  if (!value.is_number_integer() || value < 0 || value > kMostIds) {
    throw bad("token id " + value.dump().substr(0, 40) + " is no whole number from 0 to " + std::to_string(kMostIds));
  }
  return value.get<int32_t>();
}

std::vector<SpecialToken> read_specials(const Json& json) {
  std::vector<SpecialToken> specials;
  for (const Json& token : json.value("added_tokens", Json::array())) {
    const std::string text = token.at("content").get<std::string>();
    for (const char* key : {"lstrip", "rstrip", "single_word"}) {
      if (token.value(key, false)) {
        throw bad("added token " + text + " with " + key + " is not supported");
      }
    }
    if (text.empty()) {
      throw bad("added_tokens holds an empty text");
    }
    specials.push_back({text, token_id(token.at("id")), token.value("special", true)});
  }
  return specials;
}

std::vector<std::string> read_pieces(const Json& vocabulary, const std::vector<SpecialToken>& specials) {
  std::vector<std::string> pieces;
  const auto place = [&](int32_t id) -> std::string& {
    pieces.resize(std::max<size_t>(pieces.size(), static_cast<size_t>(id) + 1));
    return pieces[static_cast<size_t>(id)];
  };
  for (const auto& [text, id] : vocabulary.items()) {
    std::string bytes;
    if (!printable_to_bytes(text, bytes)) {
      bytes = text;  // an added token listed in the vocabulary, written as it is
    }
    place(token_id(id)) = bytes;
  }
  for (const SpecialToken& special : specials) {
    place(special.id) = special.text;
  }
  return pieces;
}

// A merge is "a b" in older files and ["a", "b"] in newer ones.
std::vector<std::pair<int32_t, int32_t>> read_merges(const Json& merges, const Json& vocabulary) {
  std::vector<std::pair<int32_t, int32_t>> out;
  for (const Json& merge : merges) {
    std::string a;
    std::string b;
    if (merge.is_array()) {
      a = merge.at(0).get<std::string>();
      b = merge.at(1).get<std::string>();
    } else {
      const std::string text = merge.get<std::string>();
      const size_t space = text.find(' ');
      a = text.substr(0, space);
      b = text.substr(std::min(space, text.size() - 1) + 1);
    }
    for (const std::string& part : {a, b}) {
      if (!vocabulary.contains(part)) {
        throw bad("model.merges[" + std::to_string(out.size()) + "] names '" + part + "', which model.vocab lacks");
      }
    }
    out.emplace_back(vocabulary[a].get<int32_t>(), vocabulary[b].get<int32_t>());
  }
  return out;
}

// Names of files beside a tokenizer.json that transformers, vLLM and others read.
constexpr const char* kCompanions[] = {"tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "vocab.json",
                                       "merges.txt"};
// Keys of a tokenizer.json that concern what is done around the encoding of a text.
constexpr const char* kPassedOn[] = {"truncation", "padding", "post_processor", "decoder"};

}  // namespace

std::string bytes_to_printable(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    append_utf8(out, codes()[static_cast<unsigned char>(byte)]);
  }
  return out;
}

bool printable_to_bytes(std::string_view text, std::string& bytes) {
  static const std::array<int, 512> table = [] {
    std::array<int, 512> inverse;
    inverse.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      inverse[static_cast<size_t>(codes()[static_cast<size_t>(byte)])] = byte;
    }
    return inverse;
  }();
  bytes.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = static_cast<unsigned char>(text[i]);
    if (code >= 0x80) {
      if ((code & 0xe0) != 0xc0 || i + 1 >= text.size()) {
        return false;
      }
      code = (code & 0x1f) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f);
    }
    if (code >= table.size() || table[code] < 0) {
      return false;
    }
    bytes += static_cast<char>(table[code]);
  }
  return true;
}

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.failure();
  }
  const Result<Json> json = parse_json(*text);
  if (!json) {
    return Failure{path + ": " + json.failure().message, "bad_input"};
  }
  Result<Tokenizer> made = from_json(*json);
  if (!made) {
    return Failure{path + ": " + made.failure().message, made.failure().code};
  }
  made->source_text_ = *text;
  const std::filesystem::path place(path);
  if (place.filename() != "tokenizer.json") {
    return made;
  }
  for (const char* name : kCompanions) {
    const std::string beside = (place.parent_path() / name).string();
    if (!std::filesystem::exists(beside)) {
      continue;
    }
    Result<std::string> companion = read_file(beside);
    if (!companion) {
      return companion.failure();
    }
    made->companions_[name] = std::move(companion).value();
  }
  return made;
}

Result<Tokenizer> Tokenizer::from_json(const Json& json) {
  try {
    refuse_unknown(json);
    const Result<Normalization> normalization = read_normalizer(json.value("normalizer", Json()));
    if (!normalization) {
      throw bad(normalization.failure().message);
    }
    const Json& model = json.at("model");
    std::vector<SpecialToken> specials = read_specials(json);
    std::vector<std::string> pieces = read_pieces(model.at("vocab"), specials);
    Result<Tokenizer> made =
        build(std::move(pieces), read_merges(model.at("merges"), model.at("vocab")), std::move(specials),
              json.value("pre_tokenizer", Json()), model.value("ignore_merges", false), *normalization);
    for (const char* key : kPassedOn) {
      if (made && json.contains(key)) {
        made->passed_on_[key] = json[key];
      }
    }
    return made;
  } catch (const std::exception& error) {
    return Failure{std::string("tokenizer: ") + error.what(), "bad_input"};
  }
}

Json Tokenizer::to_json() const {
  Json vocabulary = Json::object();
  for (size_t id = 0; id < pieces_.size(); ++id) {
    if (!pieces_[id].empty()) {
      vocabulary[is_special_[id] ? pieces_[id] : bytes_to_printable(pieces_[id])] = id;
    }
  }
  Json merges = Json::array();
  for (const auto& [a, b] : merge_list_) {
    merges.push_back(
        {bytes_to_printable(pieces_[static_cast<size_t>(a)]), bytes_to_printable(pieces_[static_cast<size_t>(b)])});
  }
  std::vector<SpecialToken> by_id = specials_;
  std::sort(by_id.begin(), by_id.end(), [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; });
  Json added = Json::array();
  for (const SpecialToken& token : by_id) {
    added.push_back({{"id", token.id},
                     {"content", token.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", token.control}});
  }
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  Json json = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added},
               {"normalizer", write_normalizer(normalization_)},
               {"pre_tokenizer", pre_tokenizer_json_},
               {"post_processor", nullptr},
               {"decoder", byte_level},
               {"model",
                {{"type", "BPE"},
                 {"dropout", nullptr},
                 {"unk_token", nullptr},
                 {"continuing_subword_prefix", nullptr},
                 {"end_of_word_suffix", nullptr},
                 {"fuse_unk", false},
                 {"byte_fallback", false},
                 {"ignore_merges", ignore_merges_},
                 {"vocab", vocabulary},
                 {"merges", merges}}}};
  if (passed_on_.is_object()) {
    json.update(passed_on_);
  }
  return json;
}

Status Tokenizer::save(const std::string& path) const {
  return write_file(path, source_text_.empty() ? to_json().dump(1) + "\n" : source_text_);
}

}  // namespace khost::trainer
