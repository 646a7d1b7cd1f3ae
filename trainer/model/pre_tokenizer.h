// Cuts text into the pieces that BPE never merges across: the pre_tokenizer of a tokenizer.json.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost::trainer {

class PreTokenizer {
 public:
  // Accepts ByteLevel, Digits, Split (Isolated) and Sequence.
  static Result<std::shared_ptr<const PreTokenizer>> open(const Json& json);
  ~PreTokenizer();

  // Views into `text`, in order, without gaps.
  std::vector<std::string_view> cut(std::string_view text) const;

 private:
  struct Step;
  PreTokenizer();
  Status add(const Json& json);
  Status add_pattern(const std::string& given);
  std::vector<Step> steps_;
};

// Digits one by one, then GPT-2's pattern: what khost trains, and what SmolLM2 uses.
Json default_pre_tokenizer();

// By the names that GGUF files have for them (tokenizer.ggml.pre): smollm, gpt-2, llama-bpe, qwen2.
Result<Json> named_pre_tokenizer(const std::string& name);

}  // namespace khost::trainer
