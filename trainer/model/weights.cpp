#include "trainer/model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace khost::trainer {
namespace {

enum class Start { zero, one, normal, residual };

struct Slot {
  at::Tensor* place;
  std::vector<int64_t> shape;
  Start start;
};

int64_t count(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    product *= size;
  }
  return product;
}

// Every weight of the network, in the order of the flat tensor.
std::vector<Slot> slots(Weights& w) {
  const ModelConfig& c = w.config;
  std::vector<Slot> all = {{&w.embedding, {c.vocabulary, c.width}, Start::normal}};
  for (Layer& layer : w.layers) {
    all.push_back({&layer.norm_attention, {c.width}, Start::one});
    all.push_back({&layer.qkv, {c.qkv_width(), c.width}, Start::normal});
    if (c.qkv_bias) {
      all.push_back({&layer.qkv_bias, {c.qkv_width()}, Start::zero});
    }
    if (c.qk_norm) {
      all.push_back({&layer.q_norm, {c.head_width}, Start::one});
      all.push_back({&layer.k_norm, {c.head_width}, Start::one});
    }
    all.push_back({&layer.attention_out, {c.width, c.heads * c.head_width}, Start::residual});
    all.push_back({&layer.norm_mlp, {c.width}, Start::one});
    all.push_back({&layer.gate_up, {2 * c.mlp_width, c.width}, Start::normal});
    all.push_back({&layer.mlp_out, {c.width, c.mlp_width}, Start::residual});
  }
  all.push_back({&w.final_norm, {c.width}, Start::one});
  if (w.head == Head::value) {
    all.push_back({&w.value_head, {1, c.width}, Start::zero});
    all.push_back({&w.value_bias, {1}, Start::zero});
  } else if (!c.tied_embeddings) {
    all.push_back({&w.vocabulary_head, {c.vocabulary, c.width}, Start::normal});
  }
  return all;
}

const at::Tensor& base(const Weights& w) {
  return w.compute == ComputeType::bf16 ? w.half : w.flat;
}

// Leaf tensors that share storage with what is computed with.
void make_views(Weights& w) {
  int64_t offset = 0;
  for (Slot& slot : slots(w)) {
    const int64_t size = count(slot.shape);
    *slot.place = base(w).narrow(0, offset, size).view(slot.shape).detach();
    offset += size;
  }
}

// `drawn` false: zeros where random numbers would stand.
void fill_start(Weights& w, uint64_t seed, bool drawn) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const float residual = 0.02f / std::sqrt(2.0f * static_cast<float>(w.config.layers));
  float* at = w.flat.data_ptr<float>();
  for (const Slot& slot : slots(w)) {
    for (int64_t i = count(slot.shape); i > 0; --i, ++at) {
      switch (slot.start) {
        case Start::zero:
          *at = 0;
          break;
        case Start::one:
          *at = 1;
          break;
        case Start::normal:
          *at = drawn ? 0.02f * normal(random) : 0;
          break;
        case Start::residual:
          *at = drawn ? residual * normal(random) : 0;
          break;
      }
    }
  }
}

void make_rotary(Weights& w) {
  const int64_t half = w.config.head_width / 2;
  w.cosine = at::empty({w.config.positions, half}, at::kFloat);
  w.sine = at::empty({w.config.positions, half}, at::kFloat);
  float* cosine = w.cosine.data_ptr<float>();
  float* sine = w.sine.data_ptr<float>();
  for (int64_t t = 0; t < w.config.positions; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) * rope_frequency(w.config, i);
      *cosine++ = static_cast<float>(std::cos(angle));
      *sine++ = static_cast<float>(std::sin(angle));
    }
  }
}

Weights shape_of(const ModelConfig& config, Head head, ComputeType compute) {
  Weights w;
  w.config = config;
  w.head = head;
  w.compute = compute;
  w.layers.resize(static_cast<size_t>(config.layers));
  return w;
}

int64_t total(Weights& w) {
  int64_t sum = 0;
  for (const Slot& slot : slots(w)) {
    sum += count(slot.shape);
  }
  return sum;
}

Weights allocate(const ModelConfig& config, Head head, ComputeType compute) {
  Weights w = shape_of(config, head, compute);
  w.flat = at::zeros({total(w)}, at::kFloat);
  if (compute == ComputeType::bf16) {
    w.half = at::zeros({total(w)}, at::kBFloat16);
  }
  make_views(w);
  make_rotary(w);
  return w;
}

}  // namespace

Result<ComputeType> parse_compute_type(const std::string& name) {
  if (name == "fp32" || name == "bf16") {
    return name == "fp32" ? ComputeType::fp32 : ComputeType::bf16;
  }
  return Failure{"unknown dtype '" + name + "', expected fp32 or bf16", "bad_input"};
}

Weights make_weights(const ModelConfig& config, Head head, uint64_t seed, ComputeType compute) {
  const at::NoGradGuard no_grad;
  Weights w = allocate(config, head, compute);
  fill_start(w, seed, true);
  round_weights(w);
  return w;
}

Weights make_unfilled_weights(const ModelConfig& config, Head head, ComputeType compute) {
  const at::NoGradGuard no_grad;
  Weights w = allocate(config, head, compute);
  fill_start(w, 0, false);
  return w;
}

Weights make_critic(const Weights& actor) {
  const at::NoGradGuard no_grad;
  Weights critic = allocate(actor.config, Head::value, actor.compute);
  // The trunk comes first in both flat tensors.
  const int64_t trunk = critic.flat.numel() - critic.value_head.numel() - critic.value_bias.numel();
  critic.flat.narrow(0, 0, trunk).copy_(actor.flat.narrow(0, 0, trunk));
  round_weights(critic);
  move_to(critic, actor.flat.device());
  return critic;
}

Weights make_half(const Weights& from) {
  const at::NoGradGuard no_grad;
  Weights w = shape_of(from.config, from.head, ComputeType::bf16);
  w.half = from.flat.to(at::kBFloat16);
  w.cosine = from.cosine;
  w.sine = from.sine;
  make_views(w);
  return w;
}

void round_half(const Weights& from, Weights& half) {
  const at::NoGradGuard no_grad;
  half.half.copy_(from.flat);
}

void move_to(Weights& w, at::Device device) {
  const at::NoGradGuard no_grad;
  for (at::Tensor* tensor : {&w.flat, &w.half, &w.cosine, &w.sine}) {
    if (tensor->defined()) {
      *tensor = tensor->to(device);
    }
  }
  make_views(w);
}

void enable_gradients(Weights& w) {
  if (w.grad.defined()) {
    return;
  }
  w.grad = at::zeros_like(w.flat);
  const bool half = w.compute == ComputeType::bf16;
  if (half) {
    w.half_grad = at::zeros_like(w.half);
  }
  int64_t offset = 0;
  for (Slot& slot : slots(w)) {
    const int64_t size = count(slot.shape);
    slot.place->set_requires_grad(true);
    slot.place->mutable_grad() = (half ? w.half_grad : w.grad).narrow(0, offset, size).view(slot.shape);
    offset += size;
  }
}

void collect_gradients(Weights& w) {
  if (w.compute == ComputeType::bf16) {
    const at::NoGradGuard no_grad;
    w.grad.add_(w.half_grad);
    w.half_grad.zero_();
  }
}

void round_weights(Weights& w) {
  if (w.compute == ComputeType::bf16) {
    const at::NoGradGuard no_grad;
    w.half.copy_(w.flat);
  }
}

at::Tensor decay_mask(const Weights& weights) {
  Weights shape = shape_of(weights.config, weights.head, weights.compute);
  at::Tensor mask = at::zeros_like(weights.flat);
  int64_t offset = 0;
  for (const Slot& slot : slots(shape)) {
    const int64_t size = count(slot.shape);
    mask.narrow(0, offset, size).fill_(slot.shape.size() > 1 ? 1.0 : 0.0);
    offset += size;
  }
  return mask;
}

std::vector<TensorShape> weight_shapes(const ModelConfig& c, Head head) {
  std::vector<TensorShape> all = {{"model.embed_tokens.weight", {c.vocabulary, c.width}}};
  const int64_t q = c.heads * c.head_width;
  const int64_t kv = c.kv_heads * c.head_width;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const std::string attention = prefix + "self_attn.";
    all.push_back({prefix + "input_layernorm.weight", {c.width}});
    all.push_back({attention + "q_proj.weight", {q, c.width}});
    all.push_back({attention + "k_proj.weight", {kv, c.width}});
    all.push_back({attention + "v_proj.weight", {kv, c.width}});
    if (c.qkv_bias) {
      all.push_back({attention + "q_proj.bias", {q}});
      all.push_back({attention + "k_proj.bias", {kv}});
      all.push_back({attention + "v_proj.bias", {kv}});
    }
    if (c.qk_norm) {
      all.push_back({attention + "q_norm.weight", {c.head_width}});
      all.push_back({attention + "k_norm.weight", {c.head_width}});
    }
    all.push_back({attention + "o_proj.weight", {c.width, q}});
    all.push_back({prefix + "post_attention_layernorm.weight", {c.width}});
    all.push_back({prefix + "mlp.gate_proj.weight", {c.mlp_width, c.width}});
    all.push_back({prefix + "mlp.up_proj.weight", {c.mlp_width, c.width}});
    all.push_back({prefix + "mlp.down_proj.weight", {c.width, c.mlp_width}});
  }
  all.push_back({"model.norm.weight", {c.width}});
  if (head == Head::value) {
    all.push_back({"value_head.weight", {1, c.width}});
    all.push_back({"value_head.bias", {1}});
  } else if (!c.tied_embeddings) {
    all.push_back({"lm_head.weight", {c.vocabulary, c.width}});
  }
  return all;
}

std::vector<WeightEntry> weight_entries(const Weights& w, float* flat) {
  std::vector<WeightEntry> all;
  float* next = flat;
  for (TensorShape& tensor : weight_shapes(w.config, w.head)) {
    const int64_t size = count(tensor.shape);
    all.push_back({std::move(tensor.name), std::move(tensor.shape), next});
    next += size;
  }
  return all;
}

}  // namespace khost::trainer
