#include "trainer/trainer.h"

#include <filesystem>

#include "trainer/accelerator.h"
#include "trainer/learn/checkpoint.h"
#include "trainer/learn/optimizer.h"
#include "trainer/learn/ranks.h"
#include "trainer/model/weight_files.h"
#include "trainer/network.h"

namespace khost::trainer {
namespace {

constexpr uint64_t kRankStride = 0xd1b54a32d192ed03ULL;

Failure bad(const std::string& message) {
  return Failure{message, "bad_input"};
}

// Config, generation config and tokenizer of the model's directory.
Status read_folder(TrainerSpec& spec) {
  const std::string config_path = spec.model + "/config.json";
  const Result<Json> json = read_json(config_path);
  if (!json) {
    return json.failure();
  }
  Result<ModelConfig> config = read_config(json.value());
  if (!config) {
    return Failure{config_path + ": " + config.failure().message, config.failure().code};
  }
  spec.config_json = json.value();
  const std::string generation_path = spec.model + "/generation_config.json";
  if (std::filesystem::exists(generation_path)) {
    const Result<std::string> text = read_file(generation_path);
    const Result<Json> generation = read_json(generation_path);
    if (!text || !generation) {
      return text ? generation.failure() : text.failure();
    }
    if (const Status added = add_end_tokens(generation.value(), *config); !added) {
      return Failure{generation_path + ": " + added.failure().message, added.failure().code};
    }
    spec.generation_config = *text;
  }
  spec.config = *config;
  const std::string tokenizer = spec.model + "/tokenizer.json";
  if (!spec.tokenizer && std::filesystem::exists(tokenizer)) {
    Result<Tokenizer> loaded = Tokenizer::load(tokenizer);
    if (!loaded) {
      return loaded.failure();
    }
    spec.tokenizer = std::make_shared<const Tokenizer>(std::move(loaded).value());
  }
  return ok();
}

}  // namespace

void set_threads(int count) {
  at::set_num_threads(count);
}

Trainer::Trainer(TrainerSpec spec, Role role, std::unique_ptr<Network> network)
    : spec_(std::move(spec)),
      role_(role),
      network_(std::move(network)),
      ranks_(Ranks::current()),
      optimizer_(std::make_unique<Optimizer>(spec_.optimizer, ranks_)) {
  spec_.engine.lease_path = spec_.lease_path;
}

Trainer::~Trainer() = default;

Result<std::shared_ptr<Trainer>> Trainer::open(const TrainerSpec& given) {
  TrainerSpec spec = given;
  prepare_devices();
  if (spec.device != "cpu" && spec.device != "cuda") {
    return bad("trainer: unknown device '" + spec.device + "', expected cpu or cuda");
  }
  if (!(spec.memory_share > 0) || spec.memory_share > 1) {
    return bad("trainer: memory_share is " + std::to_string(spec.memory_share) + ", expected above 0 and at most 1");
  }
  if (spec.device == "cuda") {
    const Result<Accelerator*> opened = open_accelerator();
    if (!opened) {
      return opened.failure();
    }
    if (spec.memory_share < 1) {
      opened.value()->limit_memory(spec.memory_share);
    }
  }
  if (spec.model.empty() == !spec.config.has_value()) {
    return bad("trainer: give either a model directory or a config");
  }
  if (!spec.model.empty()) {
    if (const Status read = read_folder(spec); !read) {
      return read.failure();
    }
  }
  const bool critic = !spec.model.empty() && spec.config_json.value("khost_role", "actor") == "critic";
  const Role role = critic ? Role::critic : Role::actor;
  const Result<ComputeType> compute = parse_compute_type(spec.dtype);
  if (!compute) {
    return compute.failure();
  }
  if (!spec.engine.dtype.empty()) {
    const Result<ComputeType> sampler = parse_compute_type(spec.engine.dtype);
    if (!sampler) {
      return sampler.failure();
    }
    if (*sampler == ComputeType::fp32 && *compute == ComputeType::bf16) {
      return bad("trainer: a sampler in fp32 needs a trainer in fp32");
    }
  }
  if (spec.tokenizer && spec.tokenizer->size() > spec.config->vocabulary) {
    return bad((spec.model.empty() ? "trainer" : spec.model) + ": the tokenizer has " +
               std::to_string(spec.tokenizer->size()) + " tokens, the model only " +
               std::to_string(spec.config->vocabulary));
  }
  auto network = std::make_unique<Network>();
  const Head head = role == Role::critic ? Head::value : Head::vocabulary;
  network->weights = spec.model.empty() ? make_weights(*spec.config, head, spec.seed, *compute)
                                        : make_unfilled_weights(*spec.config, head, *compute);
  if (!spec.model.empty()) {
    if (const Status loaded = load_weights(network->weights, spec.model); !loaded) {
      return loaded.failure();
    }
  }
  if (spec.device == "cuda") {
    move_to(network->weights, at::Device(at::kCUDA, 0));
  }
  return std::shared_ptr<Trainer>(new Trainer(std::move(spec), role, std::move(network)));
}

std::shared_ptr<Trainer> Trainer::critic() const {
  auto network = std::make_unique<Network>();
  const ReadWeights reading(network_->gate);
  network->weights = make_critic(network_->weights);
  return std::shared_ptr<Trainer>(new Trainer(spec_, Role::critic, std::move(network)));
}

Result<std::shared_ptr<Policy>> Trainer::policy() {
  if (role_ != Role::actor) {
    return bad("policy: a critic has none");
  }
  const std::lock_guard lock(mutex_);
  if (!policy_) {
    // Ranks draw apart from each other; the first draws what a lone process would.
    const uint64_t seed = spec_.seed + (ranks_ ? static_cast<uint64_t>(ranks_->rank()) * kRankStride : 0);
    policy_ = std::make_shared<Policy>(network_, spec_.tokenizer, spec_.engine, seed);
  }
  return policy_;
}

int64_t Trainer::steps() const {
  return optimizer_->state().steps;
}
int64_t Trainer::parameters() const {
  return network_->weights.flat.numel();
}
const ModelConfig& Trainer::config() const {
  return network_->weights.config;
}

}  // namespace khost::trainer
