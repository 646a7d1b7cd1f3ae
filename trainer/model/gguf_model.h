// Turns a GGUF language model into a model folder of the Hugging Face layout.
#pragma once

#include <string>

#include "host/base/result.h"

namespace khost::trainer {

// Reads `path` and makes `directory` with config.json, tokenizer.json, tokenizer_config.json and model.safetensors in
// fp32; it appears whole or not at all. Llama's q and k rows come back into the order of Hugging Face.
// Failures name the file and the key or tensor.
Status convert_gguf(const std::string& path, const std::string& directory);

}  // namespace khost::trainer
