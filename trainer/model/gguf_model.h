// Turns a GGUF language model into a model folder of the Hugging Face layout.
#pragma once

#include <string>

#include "host/base/result.h"

namespace khost::trainer {

// Reads `path` and makes `directory` with config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
// special_tokens_map.json and model.safetensors in fp32; it appears whole or not at all. Llama's q and k rows come back
// into the order of Hugging Face. Where the output matrix is the embedding, stored a second time in another format, the
// model is tied and has the more precise one. Failures name the file, the key or tensor, and the remedy.
Status convert_gguf(const std::string& path, const std::string& directory);

}  // namespace khost::trainer
