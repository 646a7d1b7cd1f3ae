// All weights of one network in one flat fp32 tensor, with a flat gradient beside it; the named weights are views.
// One set serves training and generation. Files hold the Hugging Face names, q, k, v and gate, up apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "trainer/model/config.h"
#include "trainer/torch.h"

namespace khost::trainer {

enum class Head { vocabulary, value };

struct Layer {
  at::Tensor norm_attention, qkv, qkv_bias, attention_out, norm_mlp, gate_up, mlp_out;
};

struct Weights {
  ModelConfig config;
  Head head = Head::vocabulary;
  at::Tensor flat, grad;
  at::Tensor decay;  // 1 where weight decay applies (matrices), 0 elsewhere
  at::Tensor embedding, final_norm, vocabulary_head, value_head, value_bias;
  std::vector<Layer> layers;
  at::Tensor cosine, sine;  // rotary tables [positions, head_width/2]

  const at::Tensor& vocabulary_weight() const { return config.tied_embeddings ? embedding : vocabulary_head; }
};

// Matrices from N(0, 0.02), those that end a residual branch from N(0, 0.02/sqrt(2 layers)); norms 1; value head 0,
// so that a fresh critic says 0 everywhere.
Weights make_weights(const ModelConfig& config, Head head, uint64_t seed);

// A critic with `actor`'s transformer and a fresh value head.
Weights make_critic(const Weights& actor);

Status save_weights(const Weights& weights, const std::string& path);

// `path` is a safetensors file. A value head is read where the file has one, else it stays as it is.
Status load_weights(Weights& weights, const std::string& path);

}  // namespace khost::trainer
