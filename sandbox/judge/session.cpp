#include "sandbox/judge/session.h"

#include <sys/random.h>

#include <algorithm>

#include "host/base/sha256.h"

namespace khost::judge {
namespace {

using sandbox::Manifest;

constexpr double kLoadTimeout_s = 60;
constexpr double kSetTimeout_s = 120;
constexpr std::size_t kMostTaskBytes = std::size_t{4} << 30;  // of inputs, state and outputs together

}  // namespace

std::uint64_t secret_seed() {
  std::uint64_t seed = 0;
  while (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
  }
  return seed >> 1;
}

Result<Json> ask_task(Child& child, const Json& request, const std::vector<int>& fds, double timeout_s) {
  Result<Json> answer = child.call(request, fds, timeout_s);
  if (!answer) {
    const std::string& code = answer.failure().code;
    const std::string what = request.value("op", "");
    // A task that hangs or dies is the task's fault: nobody untrusted but itself ran in there.
    return code == "timeout" ? Failure{"timeout: the task did not finish '" + what + "' in time", "bad_task"}
                             : Failure{"crash: the task's process ended during '" + what + "'", "bad_task"};
  }
  if (answer->contains("ok")) {
    return (*answer)["ok"];
  }
  const Json& error = (*answer)["error"];
  const std::string reason = error.value("reason", "host");
  std::string text = reason + ": " + error.value("message", "");
  if (error.contains("line") && error["line"].is_number()) {
    text += " (line " + std::to_string(error["line"].get<int>()) + " of the task)";
  }
  return Failure{text, reason == "host" ? "host" : "bad_task"};
}

Result<LoadedTask> load_task(Zygote& zygote, const std::string& source) {
  auto child = zygote.fork("task");
  if (!child) {
    return child.failure();
  }
  auto loaded = ask_task(**child, {{"op", "load"}, {"source", source}, {"seed", secret_seed()}}, {}, kLoadTimeout_s);
  if (!loaded) {
    return loaded.failure();
  }
  return LoadedTask{std::move(*child), std::move(*loaded)};
}

Result<std::shared_ptr<Session>> Session::open(Zygote& zygote, const std::string& source) {
  auto loaded = load_task(zygote, source);
  if (!loaded) {
    return loaded.failure();
  }
  std::shared_ptr<Session> session(new Session);
  session->zygote_ = &zygote;
  session->source_ = source;
  session->hash_ = sha256_hex(source);
  session->reference_ = std::move(loaded->child);
  const auto manifest = [&](const char* name, Manifest& into) -> Status {
    auto parsed = Manifest::parse(loaded->manifests[name]);
    if (!parsed) {
      return Failure{std::string("unsupported: ") + name + ": " + parsed.failure().message, "bad_task"};
    }
    into = std::move(*parsed);
    return ok();
  };
  for (const auto& [name, into] : {std::pair{"inputs", &session->inputs_}, std::pair{"state", &session->state_},
                                   std::pair{"outputs", &session->outputs_}}) {
    if (Status parsed = manifest(name, *into); !parsed) {
      return parsed.failure();
    }
  }
  const std::size_t bytes =
      session->inputs_.region_bytes + session->state_.region_bytes + session->outputs_.region_bytes;
  if (bytes > kMostTaskBytes) {
    return Failure{"too_large: inputs, weights and outputs take " + std::to_string(bytes >> 20) + " MiB, at most " +
                       std::to_string(kMostTaskBytes >> 20) + " MiB can be judged on the CPU",
                   "bad_task"};
  }
  if (Status drawn = session->draw_sets(); !drawn) {
    return drawn.failure();
  }
  return session;
}

Status Session::draw_sets() {
  for (int i = 0; i < kSets; i++) {
    auto in = Region::create("set-inputs", inputs_.region_bytes, Sharing::read_write);
    auto state = Region::create("set-state", state_.region_bytes, Sharing::read_write);
    auto expected = Region::create("set-expected", outputs_.region_bytes, Sharing::read_write);
    for (const auto* region : {&in, &state, &expected}) {
      if (!*region) {
        return region->failure();
      }
    }
    const std::uint64_t seed = secret_seed();
    const bool oracle = i < kOracleSets;
    auto made = ask_task(*reference_, {{"op", "make_set"}, {"seed", seed}, {"oracle", oracle}},
                         {in->fd(), state->fd(), expected->fd()}, kSetTimeout_s);
    if (!made) {
      return made.failure();
    }
    const Json& scales = (*made)["scales"];
    if (oracle && scales.size() == outputs_.tensors.size()) {
      scales_.resize(scales.size());
      for (std::size_t k = 0; k < scales.size(); k++) {
        scales_[k].error = std::max(scales_[k].error, scales[k].value("error", 0.0));
        scales_[k].rms = std::max(scales_[k].rms, scales[k].value("rms", 0.0));
      }
    }
    seeds_.push_back(seed);
    sets_.push_back({std::move(*in), std::move(*state), std::move(*expected)});
  }
  reference_.reset();
  return ok();
}

std::size_t Session::bytes() const {
  std::size_t sum = 0;
  for (const InputSet& set : sets_) {
    sum += set.inputs.size() + set.state.size() + set.expected.size();
  }
  return sum;
}

Result<BaselineProcess*> Session::baseline(const std::string& mode) {
  std::unique_ptr<BaselineProcess>& slot = mode == "compile" ? compile_ : eager_;
  if (slot && slot->alive()) {
    return slot.get();
  }
  auto loaded = load_task(*zygote_, source_);
  if (!loaded) {
    return loaded.failure();
  }
  auto started = BaselineProcess::start(std::move(loaded->child), mode, inputs_.region_bytes, state_.region_bytes, sets_[0]);
  if (!started) {
    return started.failure();
  }
  slot = std::move(*started);
  return slot.get();
}

}  // namespace khost::judge
