// The normalizer of a tokenizer.json: none, or NFC as Qwen's files ask for.
#pragma once

#include <string>
#include <string_view>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost::trainer {

enum class Normalization { none, nfc };

// Accepts null, NFC, and a Sequence of these.
Result<Normalization> read_normalizer(const Json& json);
Json write_normalizer(Normalization normalization);

// Unicode's canonical composition, by utf8proc's tables. (`tokenizers` has those of Unicode 9: combining marks that are
// newer keep their order there.) Bytes that are no UTF-8 stay as they are and separate what stands around them.
std::string compose(std::string_view text);

}  // namespace khost::trainer
