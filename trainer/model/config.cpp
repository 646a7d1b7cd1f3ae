#include "trainer/model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

namespace khost::trainer {
namespace {

Failure bad(const std::string& message) {
  return Failure{"model config: " + message, "bad_input"};
}

// The exceptions of the JSON library do not say which field they are about.
template <class T>
T convert(const Json& value, const char* key) {
  try {
    return value.get<T>();
  } catch (const Json::exception& error) {
    throw std::runtime_error(std::string(key) + ": " + error.what());
  }
}

template <class T>
void take(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found != json.end() && !found->is_null()) {
    value = convert<T>(*found, key);
  }
}

template <class T>
void need(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    throw std::runtime_error(std::string(key) + " is missing");
  }
  value = convert<T>(*found, key);
}

template <class T>
T get(const Json& json, const char* key, T otherwise) {
  take(json, key, otherwise);
  return otherwise;
}

void refuse(bool present, const std::string& what) {
  if (present) {
    throw std::runtime_error(what + " is not computed here");
  }
}

// A token's id; null and numbers below 0 mean that there is none.
void take_token(const Json& json, const char* key, int64_t& value) {
  take(json, key, value);
  value = std::max<int64_t>(value, -1);
}

// Token ids, one or a list; those that are there already are not added again.
void take_tokens(const Json& json, const char* key, std::vector<int64_t>& ids) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    return;
  }
  const auto given = found->is_array() ? convert<std::vector<int64_t>>(*found, key)
                                       : std::vector<int64_t>{convert<int64_t>(*found, key)};
  for (const int64_t id : given) {
    if (id > std::numeric_limits<int32_t>::max()) {
      throw std::runtime_error(std::string(key) + " has " + std::to_string(id) + ", which is no token id");
    }
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) {
      ids.push_back(id);
    }
  }
}

Result<ModelConfig> check(ModelConfig c) {
  const std::pair<const char*, int64_t> sizes[] = {{"vocabulary", c.vocabulary}, {"width", c.width},
                                                   {"layers", c.layers},         {"heads", c.heads},
                                                   {"kv_heads", c.kv_heads},     {"head_width", c.head_width},
                                                   {"mlp_width", c.mlp_width},   {"positions", c.positions}};
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > (int64_t{1} << 24)) {
      return bad(std::string(name) + " is " + std::to_string(size) + ", expected 1 to 2^24");
    }
  }
  if (c.heads % c.kv_heads != 0) {
    return bad("heads must be a multiple of kv_heads");
  }
  if (c.head_width % 2 != 0) {
    return bad("head_width must be even for rotary positions");
  }
  if (!(c.rope_theta > 0) || !(c.norm_epsilon >= 0) || !(c.rope.factor > 0)) {
    return bad("rope_theta and the rope factor must be above 0, norm_epsilon at least 0");
  }
  if (c.rope.type == "llama3" && (!(c.rope.high > c.rope.low) || c.rope.original_positions < 1)) {
    return bad("rope_scaling: high_freq_factor must be above low_freq_factor, with original positions");
  }
  return c;
}

Result<ModelConfig> read_short(const Json& json) {
  static const std::set<std::string> known = {
      "family",    "vocabulary", "width",        "layers",          "heads",    "kv_heads", "head_width",  "mlp_width",
      "positions", "rope_theta", "norm_epsilon", "tied_embeddings", "qkv_bias", "qk_norm",  "begin_token", "end_token"};
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
  take(json, "qk_norm", c.qk_norm);
  take_token(json, "begin_token", c.begin_token);
  take_tokens(json, "end_token", c.end_tokens);
  refuse(c.qkv_bias && c.qk_norm, "qkv_bias together with qk_norm");
  return check(std::move(c));
}

// rope_theta moved into rope_parameters in transformers 5, and rope_scaling's `type` was renamed to rope_type before:
// all of these are read.
void read_rope(const Json& json, ModelConfig& c) {
  take(json, "rope_theta", c.rope_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = json.find(key);
    if (rope == json.end() || rope->is_null()) {
      continue;
    }
    refuse(!rope->is_object(), std::string(key) + " that is no object");
    RopeScaling& scaling = c.rope;
    scaling.type = get<std::string>(*rope, "rope_type", get<std::string>(*rope, "type", "default"));
    if (scaling.type != "default" && scaling.type != "linear" && scaling.type != "llama3") {
      throw std::runtime_error(std::string(key) + ": rope type '" + scaling.type +
                               "' is not computed here, expected default, linear or llama3");
    }
    refuse(get(*rope, "partial_rotary_factor", 1.0) != 1, std::string(key) + ".partial_rotary_factor");
    take(*rope, "rope_theta", c.rope_theta);
    if (scaling.type != "default") {
      need(*rope, "factor", scaling.factor);
    }
    if (scaling.type == "llama3") {
      need(*rope, "low_freq_factor", scaling.low);
      need(*rope, "high_freq_factor", scaling.high);
      need(*rope, "original_max_position_embeddings", scaling.original_positions);
    }
  }
}

void refuse_variants(const Json& json) {
  if (const auto act = get<std::string>(json, "hidden_act", "silu"); act != "silu") {
    throw std::runtime_error("hidden_act is '" + act + "', expected silu");
  }
  refuse(get(json, "mlp_bias", false), "mlp_bias");
  refuse(get(json, "use_sliding_window", false), "use_sliding_window");
  refuse(get(json, "attention_bias", false), "attention_bias (a bias on the output projection too)");
  refuse(get(json, "partial_rotary_factor", 1.0) != 1, "partial_rotary_factor");
  for (const Json& type : get(json, "layer_types", Json::array())) {
    refuse(type != "full_attention", "layer_types with " + type.dump());
  }
  refuse(json.contains("quantization_config") && !json["quantization_config"].is_null(), "quantization_config");
}

Result<ModelConfig> read_hugging_face(const Json& json) {
  ModelConfig c;
  need(json, "model_type", c.family);
  if (c.family != "llama" && c.family != "qwen2" && c.family != "qwen3") {
    return bad("model_type '" + c.family + "' is not computed here, expected llama, qwen2 or qwen3");
  }
  refuse_variants(json);
  read_rope(json, c);
  need(json, "vocab_size", c.vocabulary);
  need(json, "hidden_size", c.width);
  need(json, "num_hidden_layers", c.layers);
  need(json, "num_attention_heads", c.heads);
  need(json, "intermediate_size", c.mlp_width);
  c.kv_heads = c.heads;
  if (c.family == "llama") {
    take(json, "num_key_value_heads", c.kv_heads);
  } else {
    need(json, "num_key_value_heads", c.kv_heads);
  }
  c.head_width = c.width / std::max<int64_t>(c.heads, 1);
  if (c.family == "qwen3") {
    need(json, "head_dim", c.head_width);
  } else {
    take(json, "head_dim", c.head_width);
  }
  need(json, "max_position_embeddings", c.positions);
  c.norm_epsilon = 1e-6;
  take(json, "rms_norm_eps", c.norm_epsilon);
  c.tied_embeddings = false;
  take(json, "tie_word_embeddings", c.tied_embeddings);
  c.qkv_bias = c.family == "qwen2";
  c.qk_norm = c.family == "qwen3";
  take_token(json, "bos_token_id", c.begin_token);
  take_tokens(json, "eos_token_id", c.end_tokens);
  return check(std::move(c));
}

Json write_rope(const ModelConfig& c) {
  if (c.rope.type == "default") {
    return nullptr;
  }
  Json rope = {{"rope_type", c.rope.type}, {"factor", c.rope.factor}};
  if (c.rope.type == "llama3") {
    rope["low_freq_factor"] = c.rope.low;
    rope["high_freq_factor"] = c.rope.high;
    rope["original_max_position_embeddings"] = c.rope.original_positions;
  }
  return rope;
}

}  // namespace

double rope_frequency(const ModelConfig& c, int64_t index) {
  const double half = static_cast<double>(c.head_width / 2);
  const double plain = std::pow(c.rope_theta, -static_cast<double>(index) / half);
  if (c.rope.type == "linear") {
    return plain / c.rope.factor;
  }
  if (c.rope.type != "llama3") {
    return plain;
  }
  const double turns = static_cast<double>(c.rope.original_positions) * plain / (2 * std::numbers::pi);
  if (turns > c.rope.high) {
    return plain;
  }
  if (turns < c.rope.low) {
    return plain / c.rope.factor;
  }
  const double blend = (turns - c.rope.low) / (c.rope.high - c.rope.low);
  return (1 - blend) * plain / c.rope.factor + blend * plain;
}

Result<ModelConfig> read_config(const Json& json) {
  if (!json.is_object()) {
    return bad("is no JSON object");
  }
  try {
    return json.contains("model_type") || json.contains("hidden_size") ? read_hugging_face(json) : read_short(json);
  } catch (const std::exception& error) {
    return bad(error.what());
  }
}

Status add_end_tokens(const Json& generation_config, ModelConfig& config) {
  if (!generation_config.is_object()) {
    return Failure{"is no JSON object", "bad_input"};
  }
  try {
    take_tokens(generation_config, "eos_token_id", config.end_tokens);
  } catch (const std::exception& error) {
    return Failure{error.what(), "bad_input"};
  }
  return ok();
}

Json write_config(const ModelConfig& c) {
  const char* type = c.qk_norm ? "qwen3" : (c.qkv_bias ? "qwen2" : "llama");
  const char* architecture = c.qk_norm ? "Qwen3ForCausalLM" : (c.qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM");
  Json json = {{"architectures", {architecture}},
               {"model_type", type},
               {"vocab_size", c.vocabulary},
               {"hidden_size", c.width},
               {"num_hidden_layers", c.layers},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.kv_heads},
               {"head_dim", c.head_width},
               {"intermediate_size", c.mlp_width},
               {"max_position_embeddings", c.positions},
               {"rope_theta", c.rope_theta},
               {"rope_scaling", write_rope(c)},
               {"rms_norm_eps", c.norm_epsilon},
               {"hidden_act", "silu"},
               {"attention_bias", false},
               {"mlp_bias", false},
               {"tie_word_embeddings", c.tied_embeddings},
               {"torch_dtype", "float32"}};
  json["bos_token_id"] = c.begin_token < 0 ? Json() : Json(c.begin_token);
  json["eos_token_id"] = c.end_tokens.empty()       ? Json()
                         : c.end_tokens.size() == 1 ? Json(c.end_tokens[0])
                                                    : Json(c.end_tokens);
  return json;
}

}  // namespace khost::trainer
