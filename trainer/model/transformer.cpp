#include "trainer/model/transformer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/model/device_functions.h"
#include "trainer/model/functions.h"

namespace khost::trainer {
namespace {

at::Tensor attention(const Weights& w, const at::Tensor& qkv_N, const HeadShape& shape) {
  Heads heads = split_heads(qkv_N, w.cosine, w.sine, shape);
  const int64_t group = shape.heads / shape.kv_heads;
  if (group > 1) {
    heads.k_BHTD = heads.k_BHTD.repeat_interleave(group, 1);
    heads.v_BHTD = heads.v_BHTD.repeat_interleave(group, 1);
  }
  const at::Tensor out_BHTD =
      at::scaled_dot_product_attention(heads.q_BHTD, heads.k_BHTD, heads.v_BHTD, {}, 0.0, /*is_causal=*/true);
  return out_BHTD.transpose(1, 2).reshape({shape.batch * shape.time, shape.heads * shape.width});
}

}  // namespace

at::Tensor finish_layer(const Weights& w, const Layer& layer, const at::Tensor& x_NC, const at::Tensor& attention_NC) {
  const at::Tensor middle_NC = at::addmm(x_NC, attention_NC, layer.attention_out.t());
  const at::Tensor gate_up_NM = at::linear(rms_norm(middle_NC, layer.norm_mlp, w.config.norm_epsilon), layer.gate_up);
  return at::addmm(middle_NC, swiglu(gate_up_NM), layer.mlp_out.t());
}

at::Tensor project_heads(const Weights& w, const Layer& layer, const at::Tensor& x_NC) {
  const ModelConfig& c = w.config;
  const at::Tensor qkv_N = at::linear(rms_norm(x_NC, layer.norm_attention, c.norm_epsilon), layer.qkv, layer.qkv_bias);
  if (!c.qk_norm) {
    return qkv_N;
  }
  const int64_t rows = qkv_N.size(0);
  const int64_t q = c.heads * c.head_width;
  const int64_t k = c.kv_heads * c.head_width;
  const auto normed = [&](int64_t from, int64_t width, const at::Tensor& weight) {
    const at::Tensor heads = qkv_N.narrow(1, from, width).reshape({-1, c.head_width});
    return rms_norm(heads, weight, c.norm_epsilon).view({rows, width});
  };
  return at::cat({normed(0, q, layer.q_norm), normed(q, k, layer.k_norm), qkv_N.narrow(1, q + k, k)}, 1);
}

bool reads_packed(const Weights& w) {
  return w.on_device() && w.embedding.scalar_type() == at::kBFloat16 && w.config.head_width % 8 == 0 &&
         w.config.head_width <= 256;
}

Sequences make_sequences(const at::Tensor& tokens_N, const std::vector<int64_t>& lengths, at::Device device) {
  Sequences s;
  s.batch = static_cast<int64_t>(lengths.size());
  s.longest = *std::max_element(lengths.begin(), lengths.end());
  s.even = std::all_of(lengths.begin(), lengths.end(), [&](int64_t length) { return length == s.longest; });
  s.tokens_N = tokens_N.to(device);
  if (!device.is_cpu()) {
    at::Tensor positions = at::empty({tokens_N.numel()}, at::kInt);
    at::Tensor starts = at::zeros({s.batch + 1}, at::kInt);
    int32_t* position = positions.data_ptr<int32_t>();
    int32_t* start = starts.data_ptr<int32_t>();
    for (const int64_t length : lengths) {
      std::iota(position, position + length, 0);
      position += length;
      start[1] = start[0] + static_cast<int32_t>(length);
      ++start;
    }
    s.positions_N = positions.to(device);
    s.starts = starts.to(device);
  }
  return s;
}

at::Tensor hidden_states(const Weights& w, const at::Tensor& tokens_BT, Keep keep) {
  const std::vector<int64_t> lengths(static_cast<size_t>(tokens_BT.size(0)), tokens_BT.size(1));
  return hidden_states(w, make_sequences(tokens_BT.reshape({-1}), lengths, w.embedding.device()), keep);
}

at::Tensor hidden_states(const Weights& w, const Sequences& sequences, Keep keep) {
  if (w.on_device()) {
    return device_hidden_states(w, sequences, keep);
  }
  const ModelConfig& c = w.config;
  const HeadShape shape{sequences.batch, sequences.longest, c.heads, c.kv_heads, c.head_width};
  at::Tensor x_NC = at::embedding(w.embedding, sequences.tokens_N);
  for (const Layer& layer : w.layers) {
    const auto compute = [&w, &layer, shape](const at::Tensor& x) {
      return finish_layer(w, layer, x, attention(w, project_heads(w, layer, x), shape));
    };
    x_NC = keep == Keep::all ? compute(x_NC) : recompute(compute, x_NC);
  }
  return rms_norm(x_NC, w.final_norm, c.norm_epsilon);
}

at::Tensor values(const Weights& w, const at::Tensor& hidden_NC) {
  return at::linear(hidden_NC, w.value_head, w.value_bias).squeeze(1).to(at::kFloat);
}

}  // namespace khost::trainer
