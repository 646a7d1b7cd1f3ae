#include "trainer/model/gguf_names.h"

#include <map>

namespace khost::trainer {

std::string gguf_name(const std::string& hugging_face) {
  static const std::map<std::string, std::string> whole = {{"model.embed_tokens.weight", "token_embd.weight"},
                                                           {"model.norm.weight", "output_norm.weight"},
                                                           {"lm_head.weight", "output.weight"}};
  static const std::map<std::string, std::string> parts = {
      {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  if (const auto found = whole.find(hugging_face); found != whole.end()) {
    return found->second;
  }
  const std::string prefix = "model.layers.";
  const size_t layer_end = hugging_face.find('.', prefix.size());
  const size_t kind = hugging_face.rfind('.');
  if (!hugging_face.starts_with(prefix) || layer_end == std::string::npos || kind <= layer_end) {
    return "";
  }
  const auto part = parts.find(hugging_face.substr(layer_end + 1, kind - layer_end - 1));
  if (part == parts.end()) {
    return "";
  }
  const std::string layer = hugging_face.substr(prefix.size(), layer_end - prefix.size());
  return "blk." + layer + "." + part->second + hugging_face.substr(kind);
}

}  // namespace khost::trainer
