// Trainer: checkpoints.
#include <filesystem>
#include <optional>

#include "trainer/learn/checkpoint.h"
#include "trainer/learn/optimizer.h"
#include "trainer/learn/ranks.h"
#include "trainer/model/weight_files.h"
#include "trainer/network.h"
#include "trainer/trainer.h"

namespace khost::trainer {
namespace {

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

Status Trainer::save(const std::string& directory, const Json& note, bool optimizer) {
  std::unique_lock lock(mutex_);
  std::optional<ReadWeights> reading(network_->gate);
  if (ranks_ && ranks_->rank() != 0) {
    // Gives its slice of the moments; rank 0 writes.
    return optimizer ? optimizer_->save(network_->weights, "") : ok();
  }
  const Optimizer::State state = optimizer ? optimizer_->state() : Optimizer::State{};
  Json config = write_config(network_->weights.config);
  config["khost_role"] = role_ == Role::critic ? "critic" : "actor";
  // The stream of default seeds travels as text: JSON numbers lose the high bits of a 64-bit state in other readers.
  const Json kept = {{"steps", state.steps},
                     {"skipped_nonfinite", state.nonfinite},
                     {"skipped_spike", state.spikes},
                     {"norm_mean", state.norm_mean},
                     {"version", network_->version},
                     {"random", policy_ ? hex(policy_->random_state()) : ""},
                     {"note", note}};
  Weights weights = network_->weights;  // views of the live tensors
  if (!optimizer) {
    weights.flat = weights.flat.detach().cpu().clone();
    reading.reset();
    lock.unlock();
  }
  return write_checkpoint(directory, [&](const std::string& place) -> Status {
    if (const Status done = save_weights(weights, place + "/model.safetensors"); !done) {
      return done;
    }
    if (optimizer) {
      if (const Status done = optimizer_->save(weights, place + "/optimizer.safetensors"); !done) {
        return done;
      }
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

Result<Json> Trainer::load(const std::string& directory, bool optimizer) {
  if (const Status verified = verify_checkpoint(directory); !verified) {
    return verified.failure();
  }
  const Result<Json> read = read_json(directory + "/state.json");
  if (!read) {
    return read.failure();
  }
  const Json& state = read.value();
  const std::string moments = directory + "/optimizer.safetensors";
  if (optimizer && !std::filesystem::exists(moments)) {
    return Failure{directory + " was saved without its optimizer's moments; load it with optimizer = false",
                   "bad_input"};
  }
  const Result<std::shared_ptr<Policy>> own =
      role_ == Role::actor ? policy() : Result<std::shared_ptr<Policy>>(nullptr);
  const std::lock_guard lock(mutex_);
  Status loaded = ok();
  network_->gate.write([&] {
    loaded = load_weights(network_->weights, directory);
    if (!loaded) {
      return;
    }
    if (optimizer) {
      loaded = optimizer_->load(
          network_->weights, moments,
          {state.value("steps", int64_t{0}), state.value("skipped_nonfinite", state.value("skipped", int64_t{0})),
           state.value("skipped_spike", int64_t{0}), state.value("norm_mean", 0.0)});
    } else {
      optimizer_->reset();
    }
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

}  // namespace khost::trainer
