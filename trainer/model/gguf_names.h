// llama.cpp's names of tensors.
#pragma once

#include <string>

namespace khost::trainer {

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight", for the tensors of weight_shapes without a value
// head. Empty where llama.cpp has none.
std::string gguf_name(const std::string& hugging_face);

}  // namespace khost::trainer
