#include "trainer/policy.h"

#include "trainer/generate/engine.h"
#include "trainer/model/functions.h"
#include "trainer/model/transformer.h"
#include "trainer/network.h"

#include <thread>

namespace khost::trainer {

Policy::Policy(std::shared_ptr<Network> network, std::shared_ptr<const Tokenizer> tokenizer,
               const EngineOptions& options, uint64_t seed)
    : network_(std::move(network)),
      tokenizer_(std::move(tokenizer)),
      random_{seed},
      engine_(std::make_unique<Engine>(network_, tokenizer_, options)) {}

Policy::~Policy() {
  // A callback may hold the last reference: then this is the engine's own thread, which cannot wait for itself.
  if (engine_->on_own_thread()) {
    std::thread([engine = std::move(engine_)]() mutable { engine.reset(); }).detach();
  }
}

uint64_t Policy::generate(std::vector<int32_t> prompt, GenerateOptions options, Done done) {
  return engine_->submit(std::move(prompt), std::move(options), std::move(done));
}

void Policy::cancel(uint64_t id) {
  engine_->cancel(id);
}

Result<std::vector<float>> Policy::logprobs(const std::vector<int32_t>& tokens, double temperature) const {
  const int64_t count = static_cast<int64_t>(tokens.size());
  if (count < 1 || count > network_->weights.config.positions) {
    return Failure{"logprobs: expected 1 to " + std::to_string(network_->weights.config.positions) + " tokens",
                   "limit"};
  }
  at::Tensor ids = at::empty({1, count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = tokens[static_cast<size_t>(i)];
    if (token < 0 || token >= network_->weights.config.vocabulary) {
      return Failure{"logprobs: token " + std::to_string(token) + " is outside the vocabulary", "bad_input"};
    }
    ids.data_ptr<int64_t>()[i] = token;
  }
  std::vector<float> out(tokens.size(), 0.0f);
  if (count == 1) {
    return out;
  }
  const at::NoGradGuard no_grad;
  const ReadWeights reading(network_->gate);
  const at::Tensor hidden_NC = hidden_states(network_->weights, ids);
  const TokenScores scores =
      score_tokens(hidden_NC.narrow(0, 0, count - 1), network_->weights.vocabulary_weight(),
                   ids.view({count}).narrow(0, 1, count - 1).to(hidden_NC.device()), temperature);
  const at::Tensor logp_N = scores.logp_N.cpu();
  std::copy_n(logp_N.const_data_ptr<float>(), count - 1, out.begin() + 1);
  return out;
}

uint64_t Policy::version() const {
  const ReadWeights reading(network_->gate);
  return network_->version;
}

const std::vector<int64_t>& Policy::end_tokens() const {
  return network_->weights.config.end_tokens;
}
int64_t Policy::positions() const {
  return network_->weights.config.positions;
}

uint64_t Policy::next_seed() {
  const std::lock_guard lock(mutex_);
  return random_.next();
}

uint64_t Policy::random_state() const {
  const std::lock_guard lock(mutex_);
  return random_.state;
}

void Policy::set_random_state(uint64_t state) {
  const std::lock_guard lock(mutex_);
  random_.state = state;
}

EngineStats Policy::stats() const {
  return engine_->stats();
}

}  // namespace khost::trainer
