// All weights of one network in one flat fp32 tensor, with a flat gradient beside it; the named weights are views.
// One set serves training and generation. With compute type bf16 the named weights are views of a rounded copy, whose
// gradients are added to the fp32 ones after each backward pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "trainer/model/config.h"
#include "trainer/model/safetensors.h"
#include "trainer/torch.h"

namespace khost::trainer {

enum class Head { vocabulary, value };
enum class ComputeType { fp32, bf16 };
// fp32 | bf16
Result<ComputeType> parse_compute_type(const std::string& name);

struct Layer {
  at::Tensor norm_attention, qkv, qkv_bias, q_norm, k_norm, attention_out, norm_mlp, gate_up, mlp_out;
};

struct Weights {
  ModelConfig config;
  Head head = Head::vocabulary;
  ComputeType compute = ComputeType::fp32;
  at::Tensor flat, grad;       // fp32; grad only once enable_gradients ran
  at::Tensor half, half_grad;  // bf16 compute only
  at::Tensor embedding, final_norm, vocabulary_head, value_head, value_bias;
  std::vector<Layer> layers;
  at::Tensor cosine, sine;  // rotary tables [positions, head_width/2]

  bool on_device() const { return embedding.is_cuda(); }
  const at::Tensor& vocabulary_weight() const { return config.tied_embeddings ? embedding : vocabulary_head; }
};

// Matrices from N(0, 0.02), those that end a residual branch from N(0, 0.02/sqrt(2 layers)); norms 1; value head 0,
// so that a fresh critic says 0 everywhere.
Weights make_weights(const ModelConfig& config, Head head, uint64_t seed, ComputeType compute = ComputeType::fp32);
// The same with zeros in place of random numbers, for weights that are read from a folder next: drawing half a billion
// numbers takes ten seconds.
Weights make_unfilled_weights(const ModelConfig& config, Head head, ComputeType compute = ComputeType::fp32);

// A critic with `actor`'s transformer and a fresh value head.
Weights make_critic(const Weights& actor);

// A rounded copy for generation: no fp32 weights, no gradients.
Weights make_half(const Weights& from);
// After a change of `from`: rounds it anew into the memory of its copy.
void round_half(const Weights& from, Weights& half);

// Moves everything to a device, before gradients are enabled.
void move_to(Weights& weights, at::Device device);

// Gives every named weight its part of a gradient of zeros; harmless to call again.
void enable_gradients(Weights& weights);
// After a backward pass: moves what the bf16 gradients hold into the fp32 ones.
void collect_gradients(Weights& weights);
// After a change of the fp32 weights: rounds them anew.
void round_weights(Weights& weights);
// 1 where weight decay applies (matrices), 0 elsewhere; flat.
at::Tensor decay_mask(const Weights& weights);

// The tensors of a model file by their Hugging Face names, in the order of the flat tensor; what one slot of it holds
// (q, k, v and gate, up) stands apart in files, its rows one after the other.
std::vector<TensorShape> weight_shapes(const ModelConfig& config, Head head);

// One tensor of a file: its Hugging Face name and the rows of the fp32 weights that hold it (q, k, v and gate, up stand
// apart in files). `flat` is the host's memory of the flat tensor, or of a copy of it.
struct WeightEntry {
  std::string name;
  std::vector<int64_t> shape;
  float* data;
};
std::vector<WeightEntry> weight_entries(const Weights& weights, float* flat);

}  // namespace khost::trainer
