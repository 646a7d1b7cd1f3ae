// Trainer: checkpoints.
#include <filesystem>
#include <map>
#include <optional>

#include "trainer/accelerator.h"
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

// The config.json that the model came with, or one that its shape makes; weights are saved in fp32.
Json saved_config(const TrainerSpec& spec, const ModelConfig& shape, Role role) {
  Json config = spec.config_json.is_object() ? spec.config_json : write_config(shape);
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = "float32";
  config["khost_role"] = role == Role::critic ? "critic" : "actor";
  return config;
}

// What other programs read beside the weights: the tokenizer with its companions, and the generation config.
Status save_companions(const TrainerSpec& spec, const std::string& place) {
  std::map<std::string, std::string> files;
  if (spec.tokenizer) {
    if (const Status done = spec.tokenizer->save(place + "/tokenizer.json"); !done) {
      return done;
    }
    files = spec.tokenizer->companions();
  }
  if (!spec.generation_config.empty()) {
    files["generation_config.json"] = spec.generation_config;
  }
  for (const auto& [name, text] : files) {
    if (const Status done = write_file(place + "/" + name, text); !done) {
      return done;
    }
  }
  return ok();
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
  const Json config = saved_config(spec_, network_->weights.config, role_);
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
    if (const Status done = save_companions(spec_, place); !done) {
      return done;
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
  // Of ranks that share batches the first alone draws: the others need no room for it.
  const bool draws = role_ == Role::actor && !(ranks_ && ranks_->whole() && ranks_->rank() != 0);
  const Result<std::shared_ptr<Policy>> own = draws ? policy() : Result<std::shared_ptr<Policy>>(nullptr);
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
    if (network_->weights.on_device()) {
      accelerator().finish();  // copies to the device are queued: nobody draws from weights that are not there yet
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
