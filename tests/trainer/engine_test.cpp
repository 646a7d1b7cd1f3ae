// Generation: truncated sampling, stop texts, bf16 sampling, many turns.
#include <doctest/doctest.h>

#include <cmath>
#include <future>
#include <set>

#include "trainer/generate/sampler.h"
#include "trainer/trainer.h"

using namespace khost::trainer;
using khost::Result;

namespace {

std::shared_ptr<const Tokenizer> letters() {
  return std::make_shared<const Tokenizer>(
      train_tokenizer({"abababab abab ab"}, {.vocabulary = 260, .specials = {"<|end|>"}}).value());
}

std::shared_ptr<Policy> open(const std::string& sampler_dtype = "") {
  TrainerSpec spec;
  spec.config = ModelConfig{};
  spec.config->vocabulary = 260;
  spec.config->width = 32;
  spec.config->layers = 2;
  spec.config->heads = 4;
  spec.config->kv_heads = 2;
  spec.config->head_width = 8;
  spec.config->mlp_width = 48;
  spec.config->positions = 512;
  spec.tokenizer = letters();
  spec.engine.dtype = sampler_dtype;
  spec.seed = 2;
  return Trainer::open(spec).value()->policy().value();
}

Result<Completion> draw(Policy& policy, const std::vector<int32_t>& prompt, const GenerateOptions& options) {
  std::promise<Result<Completion>> drawn;
  policy.generate(prompt, options, [&](Result<Completion> result) { drawn.set_value(std::move(result)); });
  return drawn.get_future().get();
}

// Weights of a model whose next token has the given probabilities, whatever stands before.
Weights fixed(const std::vector<double>& probabilities) {
  ModelConfig c;
  c.vocabulary = static_cast<int64_t>(probabilities.size());
  c.width = 2;
  c.heads = c.kv_heads = 1;
  c.head_width = 2;
  c.layers = 1;
  c.mlp_width = 2;
  Weights w = make_weights(c, Head::vocabulary, 1);
  for (size_t i = 0; i < probabilities.size(); ++i) {
    w.embedding.data_ptr<float>()[2 * i] = static_cast<float>(std::log(probabilities[i]));
    w.embedding.data_ptr<float>()[2 * i + 1] = 0;
  }
  return w;
}

std::vector<int> histogram(const Weights& w, int64_t top_k, double top_p, int draws) {
  RandomStream random{5};
  std::vector<int> counts(static_cast<size_t>(w.config.vocabulary));
  at::Tensor hidden = at::zeros({1, 2}, at::kFloat);
  hidden.data_ptr<float>()[0] = 1;
  for (int i = 0; i < draws; ++i) {
    ++counts[static_cast<size_t>(sample(w, hidden, {{1.0, &random, top_k, top_p}})[0].token)];
  }
  return counts;
}

}  // namespace

TEST_CASE("top_k and top_p leave the likely tokens and keep their proportions") {
  const Weights w = fixed({0.1, 0.4, 0.2, 0.3});
  const int draws = 4000;
  const std::vector<int> two = histogram(w, 2, 1, draws);
  CHECK(two[0] + two[2] == 0);
  CHECK(two[1] == doctest::Approx(draws * 4.0 / 7).epsilon(0.05));
  const std::vector<int> nucleus = histogram(w, 0, 0.75, draws);  // 0.4 + 0.3 is not enough
  CHECK(nucleus[0] == 0);
  CHECK(nucleus[2] == doctest::Approx(draws * 2.0 / 9).epsilon(0.1));
  CHECK(histogram(w, 0, 1e-9, 50)[1] == 50);
  const std::vector<int> all = histogram(w, 0, 1, draws);
  CHECK(all[0] == doctest::Approx(draws * 0.1).epsilon(0.15));
}

TEST_CASE("log-probs of truncated draws are those of the whole distribution") {
  const auto policy = open();
  const Completion drawn = draw(*policy, {1, 2, 3}, {.max_tokens = 40, .seed = 3, .top_k = 5, .top_p = 0.9}).value();
  std::vector<int32_t> all = {1, 2, 3};
  all.insert(all.end(), drawn.tokens.begin(), drawn.tokens.end());
  const std::vector<float> scored = policy->logprobs(all, 1).value();
  for (size_t i = 0; i < drawn.tokens.size(); ++i) {
    CHECK(std::fabs(drawn.logprobs[i] - scored[i + 3]) < 1e-4);
  }
  CHECK(draw(*policy, {1}, {.top_p = 0}).failure().code == "bad_input");
}

TEST_CASE("a stop text ends a sequence where it is complete, across tokens") {
  const auto policy = open();
  GenerateOptions options{.max_tokens = 200, .seed = 8};
  const Completion whole = draw(*policy, {1}, options).value();
  const std::string text = policy->tokenizer()->decode(whole.tokens, Special::plain);
  REQUIRE(text.size() > 60);
  options.stop_texts = {"never there", text.substr(40, 4)};
  const Completion stopped = draw(*policy, {1}, options).value();
  CHECK(stopped.finish == "stop");
  const size_t expected = text.find(options.stop_texts[1]);
  CHECK(stopped.text_bytes == static_cast<int64_t>(expected));
  CHECK(stopped.tokens.size() < whole.tokens.size());
  CHECK(std::equal(stopped.tokens.begin(), stopped.tokens.end(), whole.tokens.begin()));
  CHECK(
      policy->tokenizer()->decode(stopped.tokens, Special::plain).substr(expected).starts_with(options.stop_texts[1]));
}

TEST_CASE("sampling in bf16 beside training in fp32 shows a gap that is small and not nothing") {
  const auto exact = open();
  const auto rounded = open("bf16");
  const GenerateOptions options{.max_tokens = 200, .seed = 4};
  const auto gap = [&](Policy& policy) {
    const Completion drawn = draw(policy, {1, 2, 3}, options).value();
    std::vector<int32_t> all = {1, 2, 3};
    all.insert(all.end(), drawn.tokens.begin(), drawn.tokens.end());
    const std::vector<float> scored = policy.logprobs(all, 1).value();
    double most = 0;
    for (size_t i = 0; i < drawn.tokens.size(); ++i) {
      most = std::max(most, std::fabs(static_cast<double>(drawn.logprobs[i]) - scored[i + 3]));
    }
    return most;
  };
  CHECK(gap(*exact) < 1e-4);
  const double wide = gap(*rounded);
  CHECK(wide > 1e-4);
  CHECK(wide < 0.1);
}

TEST_CASE("the next turn of a conversation reads only what is new") {
  const auto policy = open();
  std::vector<int32_t> dialogue(60, 7);
  uint64_t before = policy->stats().prompt_tokens;
  for (int turn = 0; turn < 4; ++turn) {
    const Completion answer = draw(*policy, dialogue, {.max_tokens = 30, .seed = 9}).value();
    const uint64_t read = policy->stats().prompt_tokens - before;
    before += read;
    CHECK(read <= (turn == 0 ? 60u : 11u));  // ten new tokens, and the last one drawn, which was never read
    dialogue.insert(dialogue.end(), answer.tokens.begin(), answer.tokens.end());
    dialogue.insert(dialogue.end(), 10, 3 + turn);
  }
}
