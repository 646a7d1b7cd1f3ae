// Byte-level BPE, equal to Hugging Face's `tokenizers` on any UTF-8 text and total on any bytes;
// bytes that a vocabulary lacks are left out, as there. Immutable after construction, so every thread may use it.
// Files are tokenizer.json; what its pipeline asks beyond NFC, ByteLevel, Digits and Split is refused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "trainer/model/normalizer.h"

namespace khost::trainer {

// A token that text is searched for before BPE. Control tokens are left out of decoded text.
struct SpecialToken {
  std::string text;
  int32_t id;
  bool control = true;
};

// Whether text such as <|im_end|> becomes one token. Text from tools must not: it would forge a turn.
enum class Special { plain, parse };

class PreTokenizer;
struct TokenizerTraining;

class Tokenizer {
 public:
  // A tokenizer.json, and what stands beside it for other programs (see companions).
  static Result<Tokenizer> load(const std::string& path);
  static Result<Tokenizer> from_json(const Json& json);
  Json to_json() const;
  // Of a tokenizer that was loaded the same bytes, so that nothing is lost that other programs read in them.
  Status save(const std::string& path) const;

  // Files of the folder that it was loaded from, by name, which belong to it and which khost does not read: special
  // tokens, chat templates, and the vocabulary in other layouts.
  const std::map<std::string, std::string>& companions() const { return companions_; }

  std::vector<int32_t> encode(std::string_view text, Special special) const;
  // Control tokens are written as their text when `special` is parse, else left out. Unknown ids are left out.
  std::string decode(const std::vector<int32_t>& tokens, Special special) const;

  int32_t size() const { return static_cast<int32_t>(pieces_.size()); }
  // Whether the id stands for a token: below size() there may be gaps.
  bool has(int64_t id) const { return id >= 0 && id < size() && !pieces_[static_cast<size_t>(id)].empty(); }
  // -1 when there is none.
  int32_t special_id(std::string_view text) const;
  const std::vector<SpecialToken>& specials() const { return specials_; }

 private:
  friend Result<Tokenizer> train_tokenizer(const std::vector<std::string>&, const TokenizerTraining&);

  struct Merge {
    int32_t rank, result;
  };
  static Result<Tokenizer> build(std::vector<std::string> pieces, std::vector<std::pair<int32_t, int32_t>> merges,
                                 std::vector<SpecialToken> specials, Json pre_tokenizer, bool ignore_merges,
                                 Normalization normalization = Normalization::none);
  void encode_plain(std::string_view text, std::vector<int32_t>& out) const;
  void encode_piece(std::string_view piece, std::vector<int32_t>& out) const;

  std::vector<std::string> pieces_;  // raw bytes of each id; empty for gaps
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::pair<int32_t, int32_t>> merge_list_;
  std::unordered_map<uint64_t, Merge> merges_;
  std::vector<SpecialToken> specials_;  // longest first
  std::vector<bool> is_special_;        // any token of specials_
  std::vector<bool> is_control_;
  int32_t byte_ids_[256] = {};  // -1: the vocabulary lacks the byte, as SmolLM2's lacks some control characters
  bool ignore_merges_ = false;
  Normalization normalization_ = Normalization::none;
  Json pre_tokenizer_json_;
  std::shared_ptr<const PreTokenizer> pre_tokenizer_;
  Json passed_on_;           // parts of tokenizer.json that are not used here
  std::string source_text_;  // of the file it was loaded from; empty for one that was made
  std::map<std::string, std::string> companions_;
};

struct TokenizerTraining {
  int32_t vocabulary = 512;           // specials + 256 bytes + merges
  std::vector<std::string> specials;  // get the ids 0, 1, ...
};

// Deterministic: the most frequent pair first, ties to the pair with the lower ids.
Result<Tokenizer> train_tokenizer(const std::vector<std::string>& texts, const TokenizerTraining& options);

// GPT-2's table: every byte as one printable character, in UTF-8.
std::string bytes_to_printable(std::string_view bytes);
// Returns false when `text` has a character outside the table.
bool printable_to_bytes(std::string_view text, std::string& bytes);

}  // namespace khost::trainer
