#include "trainer/trainer.h"

#include <chrono>
#include <filesystem>

#include "host/base/lease.h"
#include "trainer/learn/checkpoint.h"
#include "trainer/learn/metrics.h"
#include "trainer/learn/optimizer.h"
#include "trainer/learn/pass.h"
#include "trainer/model/functions.h"
#include "trainer/model/transformer.h"
#include "trainer/network.h"

namespace khost::trainer {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The lease, where one is configured: taken around each short piece of work.
class SharedLease {
 public:
  static Result<SharedLease> open(const std::string& path) {
    SharedLease made;
    if (!path.empty()) {
      Result<Lease> lease = Lease::open(path);
      if (!lease) {
        return lease.failure();
      }
      made.lease_.emplace(std::move(lease).value());
    }
    return made;
  }

  template <class F>
  void hold(F work) {
    std::optional<Lease::Guard> guard;
    if (lease_) {
      guard.emplace(lease_->acquire(Lease::Mode::shared));
    }
    work();
  }

 private:
  std::optional<Lease> lease_;
};

Failure bad(const std::string& message) { return Failure{message, "bad_input"}; }

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

double weighted_sum(const std::vector<float>& values, const std::vector<float>& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * weights[i];
  }
  return sum;
}

// Column entries of all actions, in trajectory order.
std::vector<float> action_column(const Batch& batch, Column column) {
  std::vector<float> out;
  if (batch.has(column)) {
    for (size_t t = 0; t < batch.mask().size(); ++t) {
      if (batch.mask()[t] != 0) {
        out.push_back(batch.column(column)[t]);
      }
    }
  }
  return out;
}

Status check_columns(const Batch& batch, const Objective& objective) {
  const auto need = [&](Column column) {
    return batch.has(column) ? ok() : Status(bad(std::string("update: the batch has no ") + column_name(column)));
  };
  if (objective.kind == ObjectiveKind::ppo) {
    for (const Column column : {Column::old_logp, Column::advantages}) {
      if (const Status there = need(column); !there) {
        return there;
      }
    }
    if (objective.kl > 0 && !batch.has(Column::ref_logp)) {
      return need(Column::ref_logp);
    }
    if (objective.importance_cap > 0 && !batch.has(Column::sampler_logp)) {
      return need(Column::sampler_logp);
    }
  }
  if (objective.kind == ObjectiveKind::value) {
    if (objective.value_clip > 0 && !batch.has(Column::values)) {
      return need(Column::values);
    }
    return need(Column::returns);
  }
  return ok();
}

}  // namespace

// What the passes of one update leave behind: one entry an action, in trajectory order.
struct Trainer::Collected {
  std::vector<float> loss, logp, entropy, values;
};

void set_threads(int count) { at::set_num_threads(count); }

Trainer::Trainer(TrainerSpec spec, Role role, std::unique_ptr<Network> network)
    : spec_(std::move(spec)),
      role_(role),
      network_(std::move(network)),
      optimizer_(std::make_unique<Optimizer>(network_->weights, spec_.optimizer)) {
  spec_.engine.lease_path = spec_.lease_path;
}

Trainer::~Trainer() = default;

Result<std::shared_ptr<Trainer>> Trainer::open(const TrainerSpec& given) {
  TrainerSpec spec = given;
  if (spec.model.empty() == !spec.config.has_value()) {
    return bad("trainer: give either a model directory or a config");
  }
  Role role = Role::actor;
  if (!spec.model.empty()) {
    const Result<Json> json = read_json(spec.model + "/config.json");
    if (!json) {
      return json.failure();
    }
    Result<ModelConfig> config = read_config(json.value());
    if (!config) {
      return config.failure();
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
    role = json.value().value("khost_role", "actor") == "critic" ? Role::critic : Role::actor;
  }
  if (spec.tokenizer && spec.tokenizer->size() > spec.config->vocabulary) {
    return bad("trainer: the tokenizer has " + std::to_string(spec.tokenizer->size()) + " tokens, the model only " +
               std::to_string(spec.config->vocabulary));
  }
  auto network = std::make_unique<Network>();
  network->weights = make_weights(*spec.config, role == Role::critic ? Head::value : Head::vocabulary, spec.seed);
  if (!spec.model.empty()) {
    if (const Status loaded = load_weights(network->weights, spec.model + "/model.safetensors"); !loaded) {
      return loaded.failure();
    }
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
    policy_ = std::make_shared<Policy>(network_, spec_.tokenizer, spec_.engine, spec_.seed);
  }
  return policy_;
}

Status Trainer::fill(Batch& batch, Column column) {
  const bool value = column == Column::values;
  if (!value && column != Column::old_logp && column != Column::ref_logp) {
    return bad(std::string("fill: ") + column_name(column) + " is not filled by a network");
  }
  if (value != (role_ == Role::critic)) {
    return bad(std::string("fill: ") + column_name(column) + (value ? " needs a critic" : " needs an actor"));
  }
  if (const Status checked = check_tokens(batch); !checked) {
    return checked;
  }
  Result<SharedLease> lease = SharedLease::open(spec_.lease_path);
  if (!lease) {
    return lease.failure();
  }
  const at::NoGradGuard no_grad;
  const ReadWeights reading(network_->gate);
  const Weights& w = network_->weights;
  std::vector<float> filled(static_cast<size_t>(batch.tokens()), 0.0f);
  for (const std::vector<int64_t>& part : batch.micro_batches()) {
    lease->hold([&] {
      const Pass pass = make_pass(batch, part);
      const at::Tensor hidden_NC = hidden_states(w, pass.tokens_BT).index_select(0, pass.rows_N);
      const at::Tensor out_N = value ? values(w, hidden_NC)
                                     : score_tokens(hidden_NC, w.vocabulary_weight(), pass.targets_N, batch.temperature()).logp_N;
      scatter(out_N, pass.places, filled);
    });
  }
  batch.column(column) = std::move(filled);
  return ok();
}

Status Trainer::check_tokens(const Batch& batch) const {
  const ModelConfig& c = network_->weights.config;
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    if (batch.end(i) - batch.begin(i) > c.positions + 1) {
      return Failure{"trajectory " + std::to_string(i + 1) + " has " + std::to_string(batch.end(i) - batch.begin(i)) +
                         " tokens, the model reads at most " + std::to_string(c.positions),
                     "limit"};
    }
  }
  for (const int32_t id : batch.ids()) {
    if (id < 0 || id >= c.vocabulary) {
      return bad("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(c.vocabulary));
    }
  }
  return ok();
}

Result<Metrics> Trainer::update(const Batch& batch, const Objective& objective, const StepOptions& options) {
  const std::lock_guard lock(mutex_);
  const double started = now_s();
  if ((objective.kind == ObjectiveKind::value) != (role_ == Role::critic)) {
    return bad(role_ == Role::critic ? "update: a critic learns the value objective only"
                                     : "update: the value objective needs a critic");
  }
  if (const Status checked = check_tokens(batch); !checked) {
    return checked.failure();
  }
  if (const Status checked = check_columns(batch, objective); !checked) {
    return checked.failure();
  }
  if (batch.actions() == 0) {
    return bad("update: no trajectory of the batch has an action");
  }
  Result<SharedLease> lease = SharedLease::open(spec_.lease_path);
  if (!lease) {
    return lease.failure();
  }
  const std::vector<float> weights = token_weights(batch, objective.aggregate, objective.horizon);
  const auto actions = static_cast<size_t>(batch.actions());
  Collected collected;
  for (std::vector<float>* column : {&collected.loss, &collected.logp, &collected.entropy, &collected.values}) {
    column->resize(actions);
  }
  network_->weights.grad.zero_();
  const std::vector<std::vector<int64_t>> parts = batch.micro_batches();
  for (const std::vector<int64_t>& part : parts) {
    lease->hold([&] { accumulate(batch, part, objective, weights, collected); });
  }
  Metrics metrics;
  if (role_ == Role::actor) {
    const std::vector<float> old_logp = action_column(batch, Column::old_logp);
    const std::vector<float> sampler_logp = action_column(batch, Column::sampler_logp);
    const std::vector<float> advantages = action_column(batch, Column::advantages);
    metrics = policy_metrics({collected.logp, old_logp, sampler_logp, advantages, collected.entropy}, objective);
  }
  network_->gate.write([&] {
    if (optimizer_->step(network_->weights, options, metrics) == Optimizer::Outcome::stepped) {
      ++network_->version;
    }
  });
  metrics["loss"] = weighted_sum(collected.loss, weights);
  metrics["micro_batches"] = static_cast<double>(parts.size());
  metrics["step"] = static_cast<double>(optimizer_->state().steps);
  metrics["version"] = static_cast<double>(network_->version);
  metrics["tokens"] = static_cast<double>(batch.tokens());
  metrics["action_tokens"] = static_cast<double>(batch.actions());
  metrics["seconds"] = now_s() - started;
  metrics["tokens_per_s"] = static_cast<double>(batch.tokens()) / metrics["seconds"];
  return metrics;
}

void Trainer::accumulate(const Batch& batch, const std::vector<int64_t>& trajectories, const Objective& objective,
                         const std::vector<float>& weights, Collected& collected) {
  const Weights& w = network_->weights;
  const Pass pass = make_pass(batch, trajectories);
  const auto column = [&](Column name) { return gather(batch.column(name), pass.places); };
  const at::Tensor hidden_NC = hidden_states(w, pass.tokens_BT).index_select(0, pass.rows_N);
  at::Tensor loss_N;
  if (objective.kind == ObjectiveKind::value) {
    const at::Tensor values_N = values(w, hidden_NC);
    const at::Tensor old_N = objective.value_clip > 0 ? column(Column::values) : at::Tensor();
    loss_N = value_loss(values_N, old_N, column(Column::returns), objective.value_clip);
    scatter(values_N.detach(), pass.ordinals, collected.values);
  } else {
    const TokenScores scores = score_tokens(hidden_NC, w.vocabulary_weight(), pass.targets_N, batch.temperature());
    if (objective.kind == ObjectiveKind::rft) {
      loss_N = -scores.logp_N;
    } else {
      const at::Tensor old_N = column(Column::old_logp);
      loss_N = ppo_loss(scores.logp_N, old_N, column(Column::advantages), objective);
      if (objective.importance_cap > 0) {
        loss_N = loss_N * at::clamp(at::exp(old_N - column(Column::sampler_logp)), 0.0, objective.importance_cap);
      }
      if (objective.kl > 0) {
        loss_N = loss_N + objective.kl * kl_k3(scores.logp_N, column(Column::ref_logp));
      }
    }
    if (objective.entropy > 0) {
      loss_N = loss_N - objective.entropy * scores.entropy_N;
    }
    scatter(scores.logp_N.detach(), pass.ordinals, collected.logp);
    scatter(scores.entropy_N.detach(), pass.ordinals, collected.entropy);
  }
  scatter(loss_N.detach(), pass.ordinals, collected.loss);
  (loss_N * gather(weights, pass.ordinals)).sum().backward();
}

Result<Metrics> Trainer::evaluate(const Batch& batch) {
  Batch scored = batch;
  if (role_ == Role::actor) {
    if (const Status filled = fill(scored, Column::old_logp); !filled) {
      return filled.failure();
    }
    double nll = 0;
    for (const float logp : action_column(scored, Column::old_logp)) {
      nll -= logp;
    }
    return Metrics{{"nll", nll / static_cast<double>(std::max<int64_t>(batch.actions(), 1))}};
  }
  if (const Status filled = fill(scored, Column::values); !filled) {
    return filled.failure();
  }
  if (!scored.has(Column::returns)) {
    AdvantageOptions monte_carlo;
    monte_carlo.lambda = 1;
    monte_carlo.whiten = Whitening::none;
    if (const Result<Metrics> made = fill_advantages(scored, monte_carlo); !made) {
      return made.failure();
    }
  }
  Metrics metrics = batch_metrics(scored);
  const std::vector<float> value = action_column(scored, Column::values);
  const std::vector<float> target = action_column(scored, Column::returns);
  std::vector<float> loss;
  for (size_t i = 0; i < value.size(); ++i) {
    loss.push_back(0.5f * (value[i] - target[i]) * (value[i] - target[i]));
  }
  metrics["value_loss"] = weighted_sum(loss, token_weights(scored, Aggregate::seq_mean_token_mean, 1));
  return metrics;
}

Status Trainer::save(const std::string& directory, const Json& note) {
  const std::lock_guard lock(mutex_);
  const ReadWeights reading(network_->gate);
  const Optimizer::State& state = optimizer_->state();
  Json config = write_config(network_->weights.config);
  config["khost_role"] = role_ == Role::critic ? "critic" : "actor";
  // The stream of default seeds travels as text: JSON numbers lose the high bits of a 64-bit state in other readers.
  const Json kept = {{"steps", state.steps},
                     {"skipped", state.skipped},
                     {"norm_mean", state.norm_mean},
                     {"version", network_->version},
                     {"random", policy_ ? hex(policy_->random_state()) : ""},
                     {"note", note}};
  return write_checkpoint(directory, [&](const std::string& place) -> Status {
    if (const Status done = save_weights(network_->weights, place + "/model.safetensors"); !done) {
      return done;
    }
    if (const Status done = optimizer_->save(place + "/optimizer.safetensors"); !done) {
      return done;
    }
    if (spec_.tokenizer) {
      if (const Status done = spec_.tokenizer->save(place + "/tokenizer.json"); !done) {
        return done;
      }
    }
    if (const Status done = write_json(place + "/config.json", config); !done) {
      return done;
    }
    return write_json(place + "/state.json", kept);
  });
}

Result<Json> Trainer::load(const std::string& directory) {
  if (const Status verified = verify_checkpoint(directory); !verified) {
    return verified.failure();
  }
  const Result<Json> read = read_json(directory + "/state.json");
  if (!read) {
    return read.failure();
  }
  const Json& state = read.value();
  const Result<std::shared_ptr<Policy>> own = role_ == Role::actor ? policy() : Result<std::shared_ptr<Policy>>(nullptr);
  const std::lock_guard lock(mutex_);
  Status loaded = ok();
  network_->gate.write([&] {
    loaded = load_weights(network_->weights, directory + "/model.safetensors");
    if (!loaded) {
      return;
    }
    loaded = optimizer_->load(directory + "/optimizer.safetensors",
                              {state.value("steps", int64_t{0}), state.value("skipped", int64_t{0}), state.value("norm_mean", 0.0)});
    network_->version = std::max(network_->version, state.value("version", uint64_t{0})) + 1;
  });
  if (!loaded) {
    return loaded.failure();
  }
  if (const std::string random = state.value("random", ""); own.value() && !random.empty()) {
    own.value()->set_random_state(std::stoull(random, nullptr, 16));
  }
  return state.value("note", Json());
}

int64_t Trainer::steps() const { return optimizer_->state().steps; }
int64_t Trainer::parameters() const { return network_->weights.flat.numel(); }
const ModelConfig& Trainer::config() const { return network_->weights.config; }

}  // namespace khost::trainer
