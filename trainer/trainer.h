// Owns one network, its optimizer and its policy. Free of LibTorch headers. Calls block and may come from any thread,
// one at a time for each trainer; weights change only inside update and load, when no request is in flight. Where this
// process has joined others (learn/ranks.h), update and save are steps of all ranks together; where these hold the same
// batches, so are fill and evaluate.
//
// trainer.cpp opens and hands out, trainer_score.cpp fills columns, trainer_update.cpp learns, trainer_files.cpp keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"
#include "trainer/learn/advantages.h"
#include "trainer/learn/batch.h"
#include "trainer/learn/objective.h"
#include "trainer/learn/options.h"
#include "trainer/model/config.h"
#include "trainer/policy.h"

namespace khost::trainer {

struct Network;
class Optimizer;
class Ranks;

struct TrainerSpec {
  std::string model;  // directory with config.json and safetensors; empty: a fresh `config`
  std::optional<ModelConfig> config;
  Json config_json = {};               // the directory's config.json, filled by open: its other keys are carried over
  std::string generation_config = {};  // the text of its generation_config.json; empty: it has none
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the directory's, if it has one
  OptimizerOptions optimizer;
  EngineOptions engine;
  uint64_t seed = 0;
  std::string lease_path;      // taken shared around every micro-batch and every step of the engine
  std::string dtype = "fp32";  // of computation: fp32 | bf16; weights and moments are kept in fp32 beside
  std::string device = "cpu";  // cpu | cuda
  double memory_share = 1;     // of a card's memory, of all trainers of this process together
  bool recompute = false;      // layers again in the backward pass: less memory, a third more time
};

// Threads that tensor work may use, for the whole program.
void set_threads(int count);

enum class Role { actor, critic };

class Trainer : public std::enable_shared_from_this<Trainer> {
 public:
  static Result<std::shared_ptr<Trainer>> open(const TrainerSpec& spec);
  ~Trainer();

  // A critic: this network's transformer as it is now, under a value head that says 0.
  std::shared_ptr<Trainer> critic() const;
  // The policy of an actor; always the same one.
  Result<std::shared_ptr<Policy>> policy();

  // old_logp and ref_logp by an actor, values by a critic, with the weights as they are now.
  Status fill(Batch& batch, Column column);

  // One optimizer step over the whole batch: all micro-batches, denominators over all of them.
  Result<Metrics> update(const Batch& batch, const Objective& objective, const StepOptions& options);

  // Without a step. A critic: value_loss, ev_lambda and ev_mc on returns that are there, or on the terminal rewards.
  // An actor: nll and entropy an action token.
  Result<Metrics> evaluate(const Batch& batch);

  // A checkpoint is also a model directory that open and Hugging Face's loaders read. Without `optimizer` it has no
  // moments: then weights are copied first and written aside, while updates and rollouts go on.
  Status save(const std::string& directory, const Json& note, bool optimizer = true);
  // Returns the note. Without `optimizer` only weights are taken, and the optimizer begins anew.
  Result<Json> load(const std::string& directory, bool optimizer = true);

  Role role() const { return role_; }
  int64_t steps() const;
  int64_t parameters() const;
  const ModelConfig& config() const;
  std::shared_ptr<const Tokenizer> tokenizer() const { return spec_.tokenizer; }

 private:
  struct Collected;
  Trainer(TrainerSpec spec, Role role, std::unique_ptr<Network> network);
  Status check_tokens(const Batch& batch) const;
  Status check_update(const Batch& batch, const Objective& objective) const;
  Result<Denominators> share_denominators(const Batch& batch);
  void accumulate(const Batch& batch, const std::vector<int64_t>& trajectories, const Objective& objective,
                  const std::vector<float>& weights, Collected& collected);

  TrainerSpec spec_;
  Role role_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<Ranks> ranks_;  // null: alone
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<Policy> policy_;
  mutable std::mutex mutex_;
};

}  // namespace khost::trainer
