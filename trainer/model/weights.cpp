#include "trainer/model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "trainer/model/safetensors.h"

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

// Leaf tensors that share storage with the flat weights and accumulate into the flat gradient.
void make_views(Weights& w) {
  int64_t offset = 0;
  for (Slot& slot : slots(w)) {
    const int64_t size = count(slot.shape);
    *slot.place = w.flat.narrow(0, offset, size).view(slot.shape).detach();
    slot.place->set_requires_grad(true);
    slot.place->mutable_grad() = w.grad.narrow(0, offset, size).view(slot.shape);
    w.decay.narrow(0, offset, size).fill_(slot.shape.size() > 1 ? 1.0 : 0.0);
    offset += size;
  }
}

void fill_start(Weights& w, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const float residual = 0.02f / std::sqrt(2.0f * static_cast<float>(w.config.layers));
  float* at = w.flat.data_ptr<float>();
  for (const Slot& slot : slots(w)) {
    for (int64_t i = count(slot.shape); i > 0; --i, ++at) {
      switch (slot.start) {
        case Start::zero: *at = 0; break;
        case Start::one: *at = 1; break;
        case Start::normal: *at = 0.02f * normal(random); break;
        case Start::residual: *at = residual * normal(random); break;
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
      const double angle = static_cast<double>(t) *
                           std::pow(w.config.rope_theta, -static_cast<double>(i) / static_cast<double>(half));
      *cosine++ = static_cast<float>(std::cos(angle));
      *sine++ = static_cast<float>(std::sin(angle));
    }
  }
}

Weights allocate(const ModelConfig& config, Head head) {
  Weights w;
  w.config = config;
  w.head = head;
  w.layers.resize(static_cast<size_t>(config.layers));
  int64_t total = 0;
  for (const Slot& slot : slots(w)) {
    total += count(slot.shape);
  }
  w.flat = at::zeros({total}, at::kFloat);
  w.grad = at::zeros({total}, at::kFloat);
  w.decay = at::zeros({total}, at::kFloat);
  make_views(w);
  make_rotary(w);
  return w;
}

// One tensor of the file: its name and the rows of ours that hold it.
struct Entry {
  std::string name;
  const at::Tensor* tensor;
  int64_t first_row, rows;
};

std::vector<Entry> entries(const Weights& w) {
  const ModelConfig& c = w.config;
  const auto whole = [](const std::string& name, const at::Tensor& tensor) {
    return Entry{name, &tensor, 0, tensor.size(0)};
  };
  std::vector<Entry> all = {whole("model.embed_tokens.weight", w.embedding)};
  for (size_t i = 0; i < w.layers.size(); ++i) {
    const Layer& layer = w.layers[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const int64_t q = c.heads * c.head_width;
    const int64_t kv = c.kv_heads * c.head_width;
    all.push_back(whole(prefix + "input_layernorm.weight", layer.norm_attention));
    const auto add_qkv = [&](const std::string& suffix, const at::Tensor& tensor) {
      all.push_back({prefix + "self_attn.q_proj." + suffix, &tensor, 0, q});
      all.push_back({prefix + "self_attn.k_proj." + suffix, &tensor, q, kv});
      all.push_back({prefix + "self_attn.v_proj." + suffix, &tensor, q + kv, kv});
    };
    add_qkv("weight", layer.qkv);
    if (c.qkv_bias) {
      add_qkv("bias", layer.qkv_bias);
    }
    all.push_back(whole(prefix + "self_attn.o_proj.weight", layer.attention_out));
    all.push_back(whole(prefix + "post_attention_layernorm.weight", layer.norm_mlp));
    all.push_back({prefix + "mlp.gate_proj.weight", &layer.gate_up, 0, c.mlp_width});
    all.push_back({prefix + "mlp.up_proj.weight", &layer.gate_up, c.mlp_width, c.mlp_width});
    all.push_back(whole(prefix + "mlp.down_proj.weight", layer.mlp_out));
  }
  all.push_back(whole("model.norm.weight", w.final_norm));
  if (w.head == Head::value) {
    all.push_back(whole("value_head.weight", w.value_head));
    all.push_back(whole("value_head.bias", w.value_bias));
  } else if (!c.tied_embeddings) {
    all.push_back(whole("lm_head.weight", w.vocabulary_head));
  }
  return all;
}

std::vector<int64_t> entry_shape(const Entry& entry) {
  std::vector<int64_t> shape = entry.tensor->sizes().vec();
  shape[0] = entry.rows;
  return shape;
}

float* entry_data(const Entry& entry) {
  const int64_t row = entry.tensor->numel() / entry.tensor->size(0);
  return entry.tensor->data_ptr<float>() + entry.first_row * row;
}

}  // namespace

Weights make_weights(const ModelConfig& config, Head head, uint64_t seed) {
  const at::NoGradGuard no_grad;
  Weights w = allocate(config, head);
  fill_start(w, seed);
  return w;
}

Weights make_critic(const Weights& actor) {
  const at::NoGradGuard no_grad;
  Weights critic = allocate(actor.config, Head::value);
  // The trunk comes first in both flat tensors.
  const int64_t trunk = critic.flat.numel() - critic.value_head.numel() - critic.value_bias.numel();
  critic.flat.narrow(0, 0, trunk).copy_(actor.flat.narrow(0, 0, trunk));
  return critic;
}

Status save_weights(const Weights& weights, const std::string& path) {
  std::vector<FloatTensor> tensors;
  for (const Entry& entry : entries(weights)) {
    tensors.push_back({entry.name, entry_shape(entry), entry_data(entry)});
  }
  return write_safetensors(path, tensors, {{"format", "pt"}});
}

Status load_weights(Weights& weights, const std::string& path) {
  const Result<SafeTensors> file = SafeTensors::open(path);
  if (!file) {
    return file.failure();
  }
  for (const Entry& entry : entries(weights)) {
    if (entry.name.starts_with("value_head.") && !file.value().tensors().contains(entry.name)) {
      continue;
    }
    Result<std::vector<float>> values = file.value().read_floats(entry.name, entry_shape(entry));
    if (!values) {
      return Failure{path + ": " + values.failure().message, values.failure().code};
    }
    std::copy(values->begin(), values->end(), entry_data(entry));
  }
  return ok();
}

}  // namespace khost::trainer
