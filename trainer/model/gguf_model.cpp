#include "trainer/model/gguf_model.h"

#include <algorithm>
#include <stdexcept>

#include "trainer/learn/checkpoint.h"
#include "trainer/model/config.h"
#include "trainer/model/gguf.h"
#include "trainer/model/pre_tokenizer.h"
#include "trainer/model/safetensors.h"
#include "trainer/model/tokenizer.h"

namespace khost::trainer {
namespace {

const Json& key_of(const Gguf& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    throw std::runtime_error(key + " is missing");
  }
  return found->second;
}

template <class T>
T get(const Gguf& file, const std::string& key) {
  try {
    return key_of(file, key).get<T>();
  } catch (const Json::exception& error) {
    throw std::runtime_error(key + ": " + error.what());
  }
}

template <class T>
T get_or(const Gguf& file, const std::string& key, T otherwise) {
  return file.metadata().contains(key) ? get<T>(file, key) : otherwise;
}

// The same names as in a config.json, so that the checks of read_config hold here too.
ModelConfig config_of(const Gguf& file) {
  const auto family = get<std::string>(file, "general.architecture");
  const auto number = [&](const char* name) { return get<int64_t>(file, family + "." + name); };
  if (family != "llama" && family != "qwen2" && family != "qwen3") {
    throw std::runtime_error("general.architecture is '" + family + "', expected llama, qwen2 or qwen3");
  }
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight"}) {
    if (file.tensors().contains(name)) {
      throw std::runtime_error(std::string("tensor ") + name + " (scaled rotary positions) is not read here");
    }
  }
  const auto scaling = get_or<std::string>(file, family + ".rope.scaling.type", "none");
  if (scaling != "none") {
    throw std::runtime_error(family + ".rope.scaling.type is '" + scaling + "', expected none");
  }
  Json json = {{"model_type", family},
               {"hidden_size", number("embedding_length")},
               {"num_hidden_layers", number("block_count")},
               {"num_attention_heads", number("attention.head_count")},
               {"intermediate_size", number("feed_forward_length")},
               {"max_position_embeddings", number("context_length")},
               {"rms_norm_eps", get<double>(file, family + ".attention.layer_norm_rms_epsilon")},
               {"rope_theta", get_or<double>(file, family + ".rope.freq_base", 10000)},
               {"tie_word_embeddings", !file.tensors().contains("output.weight")},
               {"vocab_size", key_of(file, "tokenizer.ggml.tokens").size()},
               {"bos_token_id", get_or<int64_t>(file, "tokenizer.ggml.bos_token_id", -1)},
               {"eos_token_id", get_or<int64_t>(file, "tokenizer.ggml.eos_token_id", -1)}};
  const int64_t heads = std::max(number("attention.head_count"), int64_t{1});
  json["num_key_value_heads"] = get_or<int64_t>(file, family + ".attention.head_count_kv", heads);
  json["head_dim"] = get_or<int64_t>(file, family + ".attention.key_length", number("embedding_length") / heads);
  const Result<ModelConfig> config = read_config(json);
  if (!config) {
    throw std::runtime_error(config.failure().message);
  }
  return config.value();
}

constexpr int kControl = 3;
constexpr int kUserDefined = 4;

Tokenizer tokenizer_of(const Gguf& file) {
  if (const auto model = get<std::string>(file, "tokenizer.ggml.model"); model != "gpt2") {
    throw std::runtime_error("tokenizer.ggml.model is '" + model + "', expected gpt2 (byte-level BPE)");
  }
  const auto name = get_or<std::string>(file, "tokenizer.ggml.pre", "gpt-2");
  const Result<Json> pre = named_pre_tokenizer(name);
  if (!pre) {
    throw std::runtime_error("tokenizer.ggml.pre: " + pre.failure().message);
  }
  const Json& tokens = key_of(file, "tokenizer.ggml.tokens");
  const auto types = get<std::vector<int>>(file, "tokenizer.ggml.token_type");
  if (types.size() != tokens.size()) {
    throw std::runtime_error("tokenizer.ggml.token_type has another length than tokenizer.ggml.tokens");
  }
  Json vocabulary = Json::object();
  Json added = Json::array();
  for (size_t id = 0; id < types.size(); ++id) {
    if (!tokens[id].is_string()) {
      throw std::runtime_error("tokenizer.ggml.tokens[" + std::to_string(id) + "] is no text");
    }
    vocabulary[tokens[id].get<std::string>()] = id;
    if (types[id] == kControl || types[id] == kUserDefined) {
      added.push_back({{"id", id}, {"content", tokens[id]}, {"special", types[id] == kControl}});
    }
  }
  const Json normalizer = name == "qwen2" ? Json{{"type", "NFC"}} : Json();
  Result<Tokenizer> made = Tokenizer::from_json({{"added_tokens", added},
                                                 {"normalizer", normalizer},
                                                 {"pre_tokenizer", pre.value()},
                                                 {"model",
                                                  {{"type", "BPE"},
                                                   {"ignore_merges", name == "llama-bpe"},
                                                   {"vocab", vocabulary},
                                                   {"merges", key_of(file, "tokenizer.ggml.merges")}}}});
  if (!made) {
    throw std::runtime_error(made.failure().message);
  }
  return std::move(made).value();
}

Json tokenizer_config(const Gguf& file) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const Json& tokens = key_of(file, "tokenizer.ggml.tokens");
  for (const char* name : {"bos", "eos"}) {
    const auto id = get_or<size_t>(file, std::string("tokenizer.ggml.") + name + "_token_id", tokens.size());
    if (id < tokens.size()) {
      json[std::string(name) + "_token"] = tokens[id];
    }
  }
  if (file.metadata().contains("tokenizer.chat_template")) {
    json["chat_template"] = key_of(file, "tokenizer.chat_template");
  }
  return json;
}

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight". Throws for names that no family has.
std::string hugging_face_name(const std::string& name) {
  static const std::map<std::string, std::string> whole = {{"token_embd.weight", "model.embed_tokens.weight"},
                                                           {"output_norm.weight", "model.norm.weight"},
                                                           {"output.weight", "lm_head.weight"}};
  static const std::map<std::string, std::string> parts = {
      {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  if (const auto found = whole.find(name); found != whole.end()) {
    return found->second;
  }
  const size_t layer_end = name.find('.', 4);
  const size_t kind = name.rfind('.');
  if (name.starts_with("blk.") && layer_end != std::string::npos && kind > layer_end) {
    const auto found = parts.find(name.substr(layer_end + 1, kind - layer_end - 1));
    if (found != parts.end()) {
      return "model.layers." + name.substr(4, layer_end - 4) + "." + found->second + name.substr(kind);
    }
  }
  throw std::runtime_error("tensor " + name + " belongs to no known family");
}

// Files of the llama family hold the rows of a q or k head interleaved: row 2i + s stands for row s*half + i.
void restore_rows(std::vector<float>& values, int64_t head_width, int64_t columns) {
  const auto head_size = static_cast<size_t>(head_width * columns);
  std::vector<float> head(head_size);
  const int64_t half = head_width / 2;
  for (size_t begin = 0; begin + head_size <= values.size(); begin += head_size) {
    for (int64_t row = 0; row < head_width; ++row) {
      const int64_t from = 2 * (row % half) + row / half;
      std::copy_n(values.begin() + static_cast<int64_t>(begin) + from * columns, columns, head.begin() + row * columns);
    }
    std::copy(head.begin(), head.end(), values.begin() + static_cast<int64_t>(begin));
  }
}

Status write_weights(const Gguf& file, const ModelConfig& config, const std::string& path) {
  std::vector<std::vector<float>> values;
  std::vector<FloatTensor> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    size_t count = 1;
    for (const int64_t size : tensor.shape) {
      count *= static_cast<size_t>(size);
    }
    if (tensor.bytes.empty()) {
      count = 0;  // a format that is not read: dequantize says so
    }
    values.emplace_back(count);
    if (const Status read = dequantize(tensor, values.back()); !read) {
      throw std::runtime_error("tensor " + name + ": " + read.failure().message);
    }
    if (config.family == "llama" && (name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight"))) {
      restore_rows(values.back(), config.head_width, tensor.shape.back());
    }
    tensors.push_back({hugging_face_name(name), tensor.shape, values.back().data()});
  }
  return write_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace

Status convert_gguf(const std::string& path, const std::string& directory) {
  const Result<Gguf> file = Gguf::open(path);
  if (!file) {
    return file.failure();
  }
  try {
    const ModelConfig config = config_of(file.value());
    const Tokenizer tokenizer = tokenizer_of(file.value());
    return write_checkpoint(directory, [&](const std::string& place) -> Status {
      if (const Status done = write_json(place + "/config.json", write_config(config)); !done) {
        return done;
      }
      if (const Status done = tokenizer.save(place + "/tokenizer.json"); !done) {
        return done;
      }
      if (const Status done = write_json(place + "/tokenizer_config.json", tokenizer_config(file.value())); !done) {
        return done;
      }
      return write_weights(file.value(), config, place + "/model.safetensors");
    });
  } catch (const std::exception& error) {
    return Failure{path + ": " + error.what(), "bad_input"};
  }
}

}  // namespace khost::trainer
