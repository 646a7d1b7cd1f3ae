#include "trainer/model/config.h"

#include <set>

namespace khost::trainer {
namespace {

Failure bad(const std::string& message) { return Failure{"model config: " + message, "bad_input"}; }

template <class T>
void take(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found != json.end() && !found->is_null()) {
    value = found->get<T>();
  }
}

// eos_token_id is a number or a list of numbers; the first is the one that ends a turn.
void take_token(const Json& json, const char* key, int64_t& value) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    return;
  }
  if (!found->is_array()) {
    value = found->get<int64_t>();
  } else if (!found->empty()) {
    value = found->front().get<int64_t>();
  }
}

Result<ModelConfig> check(ModelConfig c) {
  for (const int64_t size : {c.vocabulary, c.width, c.layers, c.heads, c.kv_heads, c.head_width, c.mlp_width,
                             c.positions}) {
    if (size < 1 || size > (int64_t{1} << 24)) {
      return bad("a size is " + std::to_string(size) + ", expected 1 to 2^24");
    }
  }
  if (c.heads % c.kv_heads != 0) {
    return bad("heads must be a multiple of kv_heads");
  }
  if (c.head_width % 2 != 0) {
    return bad("head_width must be even for rotary positions");
  }
  return c;
}

Result<ModelConfig> read_short(const Json& json) {
  static const std::set<std::string> known = {"family", "vocabulary", "width", "layers", "heads", "kv_heads",
                                              "head_width", "mlp_width", "positions", "rope_theta",
                                              "norm_epsilon", "tied_embeddings", "qkv_bias", "begin_token",
                                              "end_token"};
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) {
      return bad("unknown key '" + key + "'");
    }
  }
  ModelConfig c;
  take(json, "family", c.family);
  take(json, "vocabulary", c.vocabulary);
  take(json, "width", c.width);
  take(json, "layers", c.layers);
  take(json, "heads", c.heads);
  c.kv_heads = c.heads;
  take(json, "kv_heads", c.kv_heads);
  c.head_width = c.width / std::max<int64_t>(c.heads, 1);
  take(json, "head_width", c.head_width);
  c.mlp_width = (c.width * 8 / 3 + 7) / 8 * 8;
  take(json, "mlp_width", c.mlp_width);
  take(json, "positions", c.positions);
  take(json, "rope_theta", c.rope_theta);
  take(json, "norm_epsilon", c.norm_epsilon);
  take(json, "tied_embeddings", c.tied_embeddings);
  take(json, "qkv_bias", c.qkv_bias);
  take(json, "begin_token", c.begin_token);
  take(json, "end_token", c.end_token);
  return check(std::move(c));
}

// rope_theta moved into rope_parameters in transformers 5; both places are read.
Result<ModelConfig> read_hugging_face(const Json& json) {
  ModelConfig c;
  take(json, "model_type", c.family);
  if (c.family != "llama" && c.family != "qwen2") {
    return bad("model_type '" + c.family + "' is not computed here, expected llama or qwen2");
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json rope = json.value(key, Json());
    if (!rope.is_object()) {
      continue;
    }
    const std::string type = rope.value("rope_type", rope.value("type", "default"));
    if (type != "default") {
      return bad("rope type '" + type + "' is not computed here, expected default");
    }
    take(rope, "rope_theta", c.rope_theta);
  }
  if (json.value("hidden_act", "silu") != "silu") {
    return bad("hidden_act '" + json["hidden_act"].get<std::string>() + "', expected silu");
  }
  if (json.value("mlp_bias", false)) {
    return bad("mlp_bias is not computed here");
  }
  if (json.value("use_sliding_window", false)) {
    return bad("use_sliding_window is not computed here");
  }
  take(json, "vocab_size", c.vocabulary);
  take(json, "hidden_size", c.width);
  take(json, "num_hidden_layers", c.layers);
  take(json, "num_attention_heads", c.heads);
  c.kv_heads = c.heads;
  take(json, "num_key_value_heads", c.kv_heads);
  c.head_width = c.width / std::max<int64_t>(c.heads, 1);
  take(json, "head_dim", c.head_width);
  take(json, "intermediate_size", c.mlp_width);
  take(json, "max_position_embeddings", c.positions);
  take(json, "rope_theta", c.rope_theta);
  take(json, "rms_norm_eps", c.norm_epsilon);
  c.tied_embeddings = false;
  take(json, "tie_word_embeddings", c.tied_embeddings);
  c.qkv_bias = c.family == "qwen2";
  if (json.value("attention_bias", false)) {
    return bad("attention_bias (a bias on the output projection too) is not computed here");
  }
  take_token(json, "bos_token_id", c.begin_token);
  take_token(json, "eos_token_id", c.end_token);
  return check(std::move(c));
}

}  // namespace

Result<ModelConfig> read_config(const Json& json) {
  try {
    return json.contains("hidden_size") ? read_hugging_face(json) : read_short(json);
  } catch (const Json::exception& error) {
    return bad(error.what());
  }
}

Json write_config(const ModelConfig& c) {
  const bool qwen = c.qkv_bias;
  Json json = {{"architectures", {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
               {"model_type", qwen ? "qwen2" : "llama"},
               {"vocab_size", c.vocabulary},
               {"hidden_size", c.width},
               {"num_hidden_layers", c.layers},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.kv_heads},
               {"head_dim", c.head_width},
               {"intermediate_size", c.mlp_width},
               {"max_position_embeddings", c.positions},
               {"rope_theta", c.rope_theta},
               {"rms_norm_eps", c.norm_epsilon},
               {"hidden_act", "silu"},
               {"attention_bias", false},
               {"mlp_bias", false},
               {"tie_word_embeddings", c.tied_embeddings},
               {"torch_dtype", "float32"}};
  json["bos_token_id"] = c.begin_token < 0 ? Json() : Json(c.begin_token);
  json["eos_token_id"] = c.end_token < 0 ? Json() : Json(c.end_token);
  return json;
}

}  // namespace khost::trainer
