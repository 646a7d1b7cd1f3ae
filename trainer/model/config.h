// The shape of a decoder: read from and written to config.json of the Hugging Face layout. Families: llama, and
// qwen2 (llama with biases on q, k and v). What khost does not compute is refused, never ignored.
#pragma once

#include <cstdint>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost::trainer {

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
  int64_t begin_token = -1;  // -1: none
  int64_t end_token = -1;

  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_width; }
};

// `json` is either a config.json or a short table whose keys are the field names above.
Result<ModelConfig> read_config(const Json& json);
Json write_config(const ModelConfig& config);

}  // namespace khost::trainer
