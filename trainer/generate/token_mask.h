// Which ids may be drawn. Models have more rows in their matrices than their tokenizers have tokens (Qwen2.5: 151,936
// and 151,665): an id without a token would leave a hole in the text, and no other program could read it.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/model/tokenizer.h"

namespace khost::trainer {

struct TokenMask {
  // Bit id % 32 of word id / 32 is set where the id has a token. Empty: every id may be drawn.
  std::vector<uint32_t> bits = {};
  std::vector<int32_t> blocked = {};  // the ids that have none

  bool allows(int64_t id) const { return bits.empty() || (bits[static_cast<size_t>(id / 32)] >> (id % 32) & 1) != 0; }
};

// Of the ids below `vocabulary`; every id is allowed where there is no tokenizer, or none of them has a token.
inline TokenMask make_token_mask(const Tokenizer* tokenizer, int64_t vocabulary) {
  TokenMask mask;
  if (tokenizer == nullptr) {
    return mask;
  }
  mask.bits.resize(static_cast<size_t>((vocabulary + 31) / 32));
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (tokenizer->has(id)) {
      mask.bits[static_cast<size_t>(id / 32)] |= 1u << (id % 32);
    } else {
      mask.blocked.push_back(id);
    }
  }
  return mask.blocked.empty() || static_cast<int64_t>(mask.blocked.size()) == vocabulary ? TokenMask() : mask;
}

}  // namespace khost::trainer
