// What the metadata of a GGUF language model say in the words of Hugging Face's files. All of these throw
// std::runtime_error with the key that is missing or wrong.
#pragma once

#include "host/base/json.h"
#include "trainer/model/config.h"
#include "trainer/model/gguf.h"

namespace khost::trainer {

// Shape and end tokens; families llama, qwen2 and qwen3. Whether the output matrix is the embedding is the caller's to
// say: some makers store it twice.
ModelConfig gguf_config(const Gguf& file, bool tied_embeddings);

// tokenizer.json: vocabulary without padding rows, merges, added tokens, normalizer, pre-tokenizer, and a
// post-processor that adds the begin token where the file asks for it.
Json gguf_tokenizer(const Gguf& file);

// tokenizer_config.json: special tokens and the chat template.
Json gguf_tokenizer_config(const Gguf& file);
// special_tokens_map.json
Json gguf_special_tokens(const Gguf& file);
// generation_config.json: every token that ends an answer.
Json gguf_generation_config(const Gguf& file);

}  // namespace khost::trainer
