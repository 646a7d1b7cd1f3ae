// The shape of a decoder: read from and written to config.json of the Hugging Face layout. Families:
// llama, qwen2 (llama with biases on q, k and v) and qwen3 (llama with normed q and k heads).
// What khost does not compute is refused, never ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost::trainer {

// How rotary frequencies are stretched for contexts longer than those of pretraining.
struct RopeScaling {
  std::string type = "default";  // default | linear | llama3
  double factor = 1;
  // llama3: wavelengths above original_positions/low are divided by the factor, those below original_positions/high
  // stay, the rest is blended.
  double low = 1;
  double high = 4;
  int64_t original_positions = 8192;
};

struct ModelConfig {
  std::string family = "llama";
  int64_t vocabulary = 512;
  int64_t width = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 4;
  int64_t head_width = 32;
  int64_t mlp_width = 344;
  int64_t positions = 1024;  // longest sequence
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
  bool tied_embeddings = true;
  bool qkv_bias = false;
  bool qk_norm = false;
  RopeScaling rope = {};
  int64_t begin_token = -1;              // -1: none
  std::vector<int64_t> end_tokens = {};  // each of them ends a generation; the first is the one that is written

  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_width; }
};

// The angle by which the pair `index` of 0 .. head_width/2 - 1 turns from one position to the next.
double rope_frequency(const ModelConfig& config, int64_t index);

// `json` is either a config.json or a short table whose keys are the field names above (rope scaling apart, and
// `end_token`, a number or a list of numbers). Failures name the field.
Result<ModelConfig> read_config(const Json& json);
// Adds the end tokens of a generation_config.json, which often lists more of them than config.json does.
Status add_end_tokens(const Json& generation_config, ModelConfig& config);
Json write_config(const ModelConfig& config);

}  // namespace khost::trainer
