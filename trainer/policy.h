// A model that answers: tokenizer, weights and the engine that draws. Free of LibTorch headers. Methods may be called
// from any thread; those that compute (logprobs) block, generate answers later.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "trainer/generate/random.h"
#include "trainer/model/tokenizer.h"

namespace khost::trainer {

class Engine;
struct Network;

struct GenerateOptions {
  int64_t max_tokens = 256;
  double temperature = 1;  // 0: greedy
  uint64_t seed = 0;
  int64_t top_k = 0;                         // draw among the k most likely tokens only; 0: all
  double top_p = 1;                          // draw among the fewest tokens that hold this share of the probability
  std::vector<int32_t> stop = {};            // token ids that end a sequence; the one drawn is the last token
  std::vector<std::string> stop_texts = {};  // texts that end it where they are complete; need a tokenizer
};

struct Completion {
  std::vector<int32_t> tokens;
  // Of each drawn token, under the temperature it was drawn with, over the whole vocabulary also where top_k or top_p
  // left only a part of it: so the trainer's recomputed numbers compare.
  std::vector<float> logprobs;
  std::string finish;       // stop | length
  int64_t text_bytes = -1;  // of the decoded text before the stop text that was met; -1: none was
  uint64_t version = 0;     // of the weights that drew it
};

struct EngineOptions {
  int64_t slots = 64;
  int64_t positions = 0;        // longest sequence; 0: the model's
  int64_t prompt_tokens = 512;  // prompt tokens read in one step
  std::string lease_path;       // taken shared around every step; empty: none
  std::string dtype;  // bf16: draw with weights rounded to it while training keeps fp32; empty: as the network
};

struct EngineStats {
  uint64_t requests = 0, steps = 0;
  uint64_t drawn_tokens = 0, prompt_tokens = 0, reused_tokens = 0;
  double busy_s = 0;
};

class Policy {
 public:
  using Done = std::function<void(Result<Completion>)>;

  Policy(std::shared_ptr<Network> network, std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
         uint64_t seed);
  ~Policy();

  uint64_t generate(std::vector<int32_t> prompt, GenerateOptions options, Done done);
  void cancel(uint64_t id);

  // Log-probability of every token given those before it; the first is 0.
  Result<std::vector<float>> logprobs(const std::vector<int32_t>& tokens, double temperature) const;

  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null when the model has none
  uint64_t version() const;
  // Each of them ends a generation that names no stop of its own; the first is the one that is written.
  const std::vector<int64_t>& end_tokens() const;
  int64_t positions() const;
  EngineStats stats() const;

  // The stream that seeds requests which bring no seed.
  uint64_t next_seed();
  uint64_t random_state() const;
  void set_random_state(uint64_t state);

 private:
  std::shared_ptr<Network> network_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::mutex mutex_;
  RandomStream random_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace khost::trainer
