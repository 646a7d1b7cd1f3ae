#include "trainer/generate/sampler.h"

#include <algorithm>
#include <numeric>

namespace khost::trainer {
namespace {

// Inverse of the cumulative distribution; rounding at the end falls on the last token of positive probability.
int32_t pick(const float* probability, int64_t vocabulary, double uniform) {
  double left = uniform;
  int32_t last = 0;
  for (int64_t token = 0; token < vocabulary; ++token) {
    if (probability[token] > 0) {
      last = static_cast<int32_t>(token);
      left -= probability[token];
      if (left < 0) {
        break;
      }
    }
  }
  return last;
}

// The most likely tokens, at most top_k (0: any number) and no more than it takes to hold top_p: a heap gives them in
// order without sorting the vocabulary.
int32_t pick_among_likely(const float* probability, int64_t vocabulary, const Draw& draw) {
  const auto less = [&](int32_t a, int32_t b) {
    return probability[a] != probability[b] ? probability[a] < probability[b] : a > b;
  };
  std::vector<int32_t> heap(static_cast<size_t>(vocabulary));
  std::iota(heap.begin(), heap.end(), 0);
  std::make_heap(heap.begin(), heap.end(), less);
  std::vector<int32_t> kept;
  double held = 0;
  const auto most = static_cast<size_t>(draw.top_k > 0 ? draw.top_k : vocabulary);
  while (!heap.empty() && kept.size() < most && (kept.empty() || held < draw.top_p)) {
    if (!kept.empty() && !(probability[heap.front()] > 0)) {
      break;  // ids that may not be drawn
    }
    std::pop_heap(heap.begin(), heap.end(), less);
    kept.push_back(heap.back());
    held += probability[heap.back()];
    heap.pop_back();
  }
  double left = draw.random->uniform() * held;
  for (const int32_t token : kept) {
    left -= probability[token];
    if (left < 0) {
      return token;
    }
  }
  return kept.back();
}

// Ids that may not be drawn get no probability; what the others hold is returned.
double block(const TokenMask& mask, float* probability) {
  double held = 1;
  for (const int32_t id : mask.blocked) {
    held -= probability[id];
    probability[id] = 0;
  }
  return held;
}

int32_t draw_one(float* probability, int64_t vocabulary, const Draw& draw, const TokenMask& mask) {
  const double held = block(mask, probability);
  if (draw.top_k > 0 || draw.top_p < 1) {
    return pick_among_likely(probability, vocabulary, draw);
  }
  return pick(probability, vocabulary, draw.random->uniform() * held);
}

int32_t most_likely(const float* logp, int64_t vocabulary, const TokenMask& mask) {
  if (mask.blocked.empty()) {
    return static_cast<int32_t>(std::max_element(logp, logp + vocabulary) - logp);
  }
  int32_t best = -1;
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (mask.allows(id) && (best < 0 || logp[id] > logp[best])) {
      best = id;
    }
  }
  return best;
}

}  // namespace

std::vector<Drawn> sample(const Weights& weights, const at::Tensor& hidden_NC, const std::vector<Draw>& draws,
                          const TokenMask& mask) {
  const at::NoGradGuard no_grad;
  at::Tensor logits = at::mm(hidden_NC.to(at::kFloat), weights.vocabulary_weight().to(at::kFloat).t());
  const int64_t vocabulary = logits.size(1);
  at::Tensor temperature = at::empty({logits.size(0), 1}, at::kFloat);
  std::transform(draws.begin(), draws.end(), temperature.data_ptr<float>(),
                 [](const Draw& draw) { return static_cast<float>(draw.temperature > 0 ? draw.temperature : 1.0); });
  const at::Tensor logp = at::log_softmax(logits.div_(temperature), 1);
  const at::Tensor probability = at::exp(logp);
  std::vector<Drawn> drawn;
  drawn.reserve(draws.size());
  for (size_t i = 0; i < draws.size(); ++i) {
    const float* row = logp.const_data_ptr<float>() + static_cast<int64_t>(i) * vocabulary;
    float* weight = probability.data_ptr<float>() + static_cast<int64_t>(i) * vocabulary;
    int32_t token =
        draws[i].temperature > 0 ? draw_one(weight, vocabulary, draws[i], mask) : most_likely(row, vocabulary, mask);
    if (!mask.allows(token)) {  // the ids that may be drawn have no probability that a float can hold
      token = most_likely(row, vocabulary, mask);
    }
    drawn.push_back({token, row[token]});
  }
  return drawn;
}

}  // namespace khost::trainer
