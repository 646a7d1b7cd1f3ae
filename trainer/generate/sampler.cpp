#include "trainer/generate/sampler.h"

#include <algorithm>

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

}  // namespace

std::vector<Drawn> sample(const Weights& weights, const at::Tensor& hidden_NC, const std::vector<Draw>& draws) {
  const at::NoGradGuard no_grad;
  at::Tensor logits = at::mm(hidden_NC, weights.vocabulary_weight().t());
  const int64_t vocabulary = logits.size(1);
  at::Tensor temperature = at::empty({logits.size(0), 1}, at::kFloat);
  std::transform(draws.begin(), draws.end(), temperature.data_ptr<float>(), [](const Draw& draw) {
    return static_cast<float>(draw.temperature > 0 ? draw.temperature : 1.0);
  });
  const at::Tensor logp = at::log_softmax(logits.div_(temperature), 1);
  const at::Tensor probability = at::exp(logp);
  std::vector<Drawn> drawn;
  drawn.reserve(draws.size());
  for (size_t i = 0; i < draws.size(); ++i) {
    const float* row = logp.const_data_ptr<float>() + static_cast<int64_t>(i) * vocabulary;
    const float* weight = probability.const_data_ptr<float>() + static_cast<int64_t>(i) * vocabulary;
    const int32_t token = draws[i].temperature > 0
                              ? pick(weight, vocabulary, draws[i].random->uniform())
                              : static_cast<int32_t>(std::max_element(row, row + vocabulary) - row);
    drawn.push_back({token, row[token]});
  }
  return drawn;
}

}  // namespace khost::trainer
