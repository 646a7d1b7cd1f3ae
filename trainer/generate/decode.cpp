#include "trainer/generate/decode.h"

#include <algorithm>
#include <cmath>

#include "trainer/model/functions.h"
#include "trainer/model/kernels.h"
#include "trainer/model/transformer.h"

namespace khost::trainer {
namespace {

constexpr int64_t kGrain = 16;

// Rotates this step's keys and puts them and the values into the cache.
void store(const Weights& w, KvCache& cache, int64_t layer, const std::vector<StepToken>& tokens, const float* qkv) {
  const ModelConfig& c = w.config;
  const float* cosine = w.cosine.const_data_ptr<float>();
  const float* sine = w.sine.const_data_ptr<float>();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const StepToken& t = tokens[i];
    const int64_t half = t.position * c.head_width / 2;
    const float* key = qkv + static_cast<int64_t>(i) * c.qkv_width() + c.heads * c.head_width;
    const float* value = key + c.kv_heads * c.head_width;
    for (int64_t h = 0; h < c.kv_heads; ++h) {
      kernels::rotate(key + h * c.head_width, cache.keys(t.slot, layer, h) + t.position * c.head_width, cosine + half,
                      sine + half, c.head_width, 1);
      std::copy_n(value + h * c.head_width, c.head_width, cache.values(t.slot, layer, h) + t.position * c.head_width);
    }
  }
}

at::Tensor attend_cache(const Weights& w, KvCache& cache, int64_t layer, const std::vector<StepToken>& tokens,
                        const float* qkv) {
  const ModelConfig& c = w.config;
  const int64_t count = static_cast<int64_t>(tokens.size());
  at::Tensor out_NC = at::empty({count, c.heads * c.head_width}, at::kFloat);
  float* out = out_NC.data_ptr<float>();
  const float* cosine = w.cosine.const_data_ptr<float>();
  const float* sine = w.sine.const_data_ptr<float>();
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_width));
  at::parallel_for(0, count * c.heads, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(cache.positions()));
    std::vector<float> query(static_cast<size_t>(c.head_width));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t i = item / c.heads;
      const int64_t h = item % c.heads;
      const StepToken& t = tokens[static_cast<size_t>(i)];
      const int64_t half = t.position * c.head_width / 2;
      const int64_t kv = h / (c.heads / c.kv_heads);
      kernels::rotate(qkv + i * c.qkv_width() + h * c.head_width, query.data(), cosine + half, sine + half,
                      c.head_width, 1);
      kernels::attend(query.data(), cache.keys(t.slot, layer, kv), cache.values(t.slot, layer, kv),
                      out + item * c.head_width, scores.data(), t.position + 1, c.head_width, scale);
    }
  });
  return out_NC;
}

}  // namespace

at::Tensor decode(const Weights& w, KvCache& cache, const std::vector<StepToken>& tokens) {
  const at::NoGradGuard no_grad;
  const ModelConfig& c = w.config;
  at::Tensor ids = at::empty({static_cast<int64_t>(tokens.size())}, at::kLong);
  std::transform(tokens.begin(), tokens.end(), ids.data_ptr<int64_t>(), [](const StepToken& t) { return t.token; });
  at::Tensor x_NC = at::embedding(w.embedding, ids);
  for (int64_t l = 0; l < c.layers; ++l) {
    const Layer& layer = w.layers[static_cast<size_t>(l)];
    // Attention itself is computed in fp32, also between projections in bf16.
    const at::Tensor qkv_N = project_heads(w, layer, x_NC).to(at::kFloat).contiguous();
    const float* qkv = qkv_N.const_data_ptr<float>();
    store(w, cache, l, tokens, qkv);
    x_NC = finish_layer(w, layer, x_NC, attend_cache(w, cache, l, tokens, qkv).to(x_NC.scalar_type()));
  }
  return rms_norm(x_NC, w.final_norm, c.norm_epsilon);
}

}  // namespace khost::trainer
