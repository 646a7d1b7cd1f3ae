#include "trainer/model/gguf_metadata.h"

#include <algorithm>
#include <stdexcept>

#include "trainer/model/pre_tokenizer.h"

namespace khost::trainer {
namespace {

const Json& key_of(const Gguf& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    throw std::runtime_error("key " + key + " is missing: the file holds no language model that can be used alone");
  }
  return found->second;
}

template <class T>
T get(const Gguf& file, const std::string& key) {
  try {
    return key_of(file, key).get<T>();
  } catch (const Json::exception& error) {
    throw std::runtime_error("key " + key + ": " + error.what());
  }
}

template <class T>
T get_or(const Gguf& file, const std::string& key, T otherwise) {
  return file.metadata().contains(key) ? get<T>(file, key) : otherwise;
}

const Json& tokens_of(const Gguf& file) {
  const Json& tokens = key_of(file, "tokenizer.ggml.tokens");
  if (!tokens.is_array()) {
    throw std::runtime_error("key tokenizer.ggml.tokens is no array");
  }
  return tokens;
}

// -1 where the file names no such token, or one that its vocabulary lacks.
int64_t token_id(const Gguf& file, const std::string& name) {
  const auto id = get_or<int64_t>(file, "tokenizer.ggml." + name + "_token_id", -1);
  return id >= 0 && id < static_cast<int64_t>(tokens_of(file).size()) ? id : -1;
}

bool adds_begin_token(const Gguf& file) {
  // llama.cpp's default for a file that does not say.
  const bool usual = get_or<std::string>(file, "tokenizer.ggml.pre", "") == "llama-bpe";
  return get_or<bool>(file, "tokenizer.ggml.add_bos_token", usual) && token_id(file, "bos") >= 0;
}

constexpr int kControl = 3;
constexpr int kUserDefined = 4;
constexpr int kUnused = 5;

std::vector<int> token_types(const Gguf& file) {
  auto types = get<std::vector<int>>(file, "tokenizer.ggml.token_type");
  if (types.size() != tokens_of(file).size()) {
    throw std::runtime_error("key tokenizer.ggml.token_type has " + std::to_string(types.size()) +
                             " entries, tokenizer.ggml.tokens has " + std::to_string(tokens_of(file).size()));
  }
  return types;
}

// The tokens that end an answer: those with a key of their own, then those whose text says so, as llama.cpp has it. A
// chat model's file names one of them only.
std::vector<int64_t> end_tokens(const Gguf& file) {
  std::vector<int64_t> ends;
  const auto add = [&](int64_t id) {
    if (id >= 0 && std::find(ends.begin(), ends.end(), id) == ends.end()) {
      ends.push_back(id);
    }
  };
  for (const char* name : {"eos", "eot", "eom"}) {
    add(token_id(file, name));
  }
  const Json& tokens = tokens_of(file);
  const std::vector<int> types = token_types(file);
  for (const char* text : {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>"}) {
    for (size_t id = 0; id < types.size(); ++id) {
      if (types[id] == kControl && tokens[id] == text) {
        add(static_cast<int64_t>(id));
      }
    }
  }
  return ends;
}

// Rows of the embedding that stand for no token have an unused one, or in files of older converters a named one.
bool is_padding(int type, const std::string& text, size_t id) {
  return type == kUnused || (type == kUserDefined && text == "[PAD" + std::to_string(id) + "]");
}

std::string token_text(const Json& tokens, size_t id) {
  const std::string where = "tokenizer.ggml.tokens[" + std::to_string(id) + "]";
  if (!tokens[id].is_string()) {
    throw std::runtime_error(where + " is no text");
  }
  try {
    (void)tokens[id].dump();
  } catch (const Json::exception&) {
    throw std::runtime_error(where + " is no UTF-8");
  }
  return tokens[id].get<std::string>();
}

Json byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
}

Json post_processor(const Gguf& file) {
  if (!adds_begin_token(file)) {
    return byte_level();
  }
  const int64_t id = token_id(file, "bos");
  const std::string text = token_text(tokens_of(file), static_cast<size_t>(id));
  const Json begin = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  const Json first = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json second_begin = {{"SpecialToken", {{"id", text}, {"type_id", 1}}}};
  const Json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  Json special = Json::object();
  special[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
  const Json pattern = {{"type", "TemplateProcessing"},
                        {"single", Json::array({begin, first})},
                        {"pair", Json::array({begin, first, second_begin, second})},
                        {"special_tokens", special}};
  return {{"type", "Sequence"}, {"processors", Json::array({byte_level(), pattern})}};
}

}  // namespace

ModelConfig gguf_config(const Gguf& file, bool tied_embeddings) {
  const auto family = get<std::string>(file, "general.architecture");
  if (family != "llama" && family != "qwen2" && family != "qwen3") {
    throw std::runtime_error("key general.architecture is '" + family + "', expected llama, qwen2 or qwen3");
  }
  const auto number = [&](const char* name) { return get<int64_t>(file, family + "." + name); };
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight"}) {
    if (file.tensors().contains(name)) {
      throw std::runtime_error(std::string("tensor ") + name + " (scaled rotary positions) is not read here: use the " +
                               "model's Hugging Face folder");
    }
  }
  const auto scaling = get_or<std::string>(file, family + ".rope.scaling.type", "none");
  if (scaling != "none") {
    throw std::runtime_error("key " + family + ".rope.scaling.type is '" + scaling +
                             "', expected none: use the model's Hugging Face folder");
  }
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() || embedding->second.shape.size() != 2) {
    throw std::runtime_error("tensor token_embd.weight is missing or no matrix");
  }
  Json json = {{"model_type", family},
               {"hidden_size", number("embedding_length")},
               {"num_hidden_layers", number("block_count")},
               {"num_attention_heads", number("attention.head_count")},
               {"intermediate_size", number("feed_forward_length")},
               {"max_position_embeddings", number("context_length")},
               {"rms_norm_eps", get<double>(file, family + ".attention.layer_norm_rms_epsilon")},
               {"rope_theta", get_or<double>(file, family + ".rope.freq_base", 10000)},
               {"tie_word_embeddings", tied_embeddings},
               {"vocab_size", embedding->second.shape[0]},
               {"bos_token_id", token_id(file, "bos")},
               {"eos_token_id", end_tokens(file)}};
  const int64_t heads = std::max(number("attention.head_count"), int64_t{1});
  json["num_key_value_heads"] = get_or<int64_t>(file, family + ".attention.head_count_kv", heads);
  json["head_dim"] = get_or<int64_t>(file, family + ".attention.key_length", number("embedding_length") / heads);
  const Result<ModelConfig> config = read_config(json);
  if (!config) {
    throw std::runtime_error(config.failure().message);
  }
  return config.value();
}

Json gguf_tokenizer(const Gguf& file) {
  if (const auto model = get<std::string>(file, "tokenizer.ggml.model"); model != "gpt2") {
    throw std::runtime_error("key tokenizer.ggml.model is '" + model + "', expected gpt2 (byte-level BPE)");
  }
  const auto name = get_or<std::string>(file, "tokenizer.ggml.pre", "gpt-2");
  const Result<Json> pre = named_pre_tokenizer(name);
  if (!pre) {
    throw std::runtime_error("key tokenizer.ggml.pre: " + pre.failure().message);
  }
  const Json& tokens = tokens_of(file);
  const std::vector<int> types = token_types(file);
  Json vocabulary = Json::object();
  Json added = Json::array();
  for (size_t id = 0; id < types.size(); ++id) {
    const std::string text = token_text(tokens, id);
    if (is_padding(types[id], text, id)) {
      continue;
    }
    if (vocabulary.contains(text)) {
      throw std::runtime_error("tokenizer.ggml.tokens[" + std::to_string(id) + "] is there twice: '" + text + "'");
    }
    vocabulary[text] = id;
    if (types[id] == kControl || types[id] == kUserDefined) {
      added.push_back({{"id", id},
                       {"content", text},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", types[id] == kControl}});
    }
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", name == "qwen2" ? Json{{"type", "NFC"}} : Json()},
          {"pre_tokenizer", pre.value()},
          {"post_processor", post_processor(file)},
          {"decoder", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", name == "llama-bpe"},
            {"vocab", vocabulary},
            {"merges", key_of(file, "tokenizer.ggml.merges")}}}};
}

Json gguf_special_tokens(const Gguf& file) {
  Json json = Json::object();
  for (const auto& [key, name] : {std::pair{"bos", "bos_token"}, {"eos", "eos_token"}, {"padding", "pad_token"}}) {
    if (const int64_t id = token_id(file, key); id >= 0) {
      json[name] = token_text(tokens_of(file), static_cast<size_t>(id));
    }
  }
  return json;
}

Json gguf_tokenizer_config(const Gguf& file) {
  Json json = gguf_special_tokens(file);
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  json["add_bos_token"] = adds_begin_token(file);
  json["clean_up_tokenization_spaces"] = false;
  const auto family = get<std::string>(file, "general.architecture");
  json["model_max_length"] = get<int64_t>(file, family + ".context_length");
  if (file.metadata().contains("tokenizer.chat_template")) {
    json["chat_template"] = get<std::string>(file, "tokenizer.chat_template");
  }
  return json;
}

Json gguf_generation_config(const Gguf& file) {
  const std::vector<int64_t> ends = end_tokens(file);
  Json json = {{"eos_token_id", ends.size() == 1 ? Json(ends[0]) : Json(ends)}};
  for (const auto& [key, name] : {std::pair{"bos", "bos_token_id"}, {"padding", "pad_token_id"}}) {
    if (const int64_t id = token_id(file, key); id >= 0) {
      json[name] = id;
    }
  }
  return json;
}

}  // namespace khost::trainer
