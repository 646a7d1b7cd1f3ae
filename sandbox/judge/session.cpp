#include "sandbox/judge/session.h"

#include "sandbox/judge/subject.h"

#include <sys/random.h>

#include <algorithm>

#include "host/base/sha256.h"

namespace khost::judge {
namespace {

constexpr int kMostUses = 64;
constexpr double kLoadTimeout = 120;

Result<sandbox::Manifest> manifest_at(const Json& answer, const char* key) {
  if (!answer.is_object() || !answer.contains(key)) {
    return Failure{std::string("the reference described no ") + key, "bad_task"};
  }
  return sandbox::Manifest::parse(answer[key]);
}

// Of a child that was asked: what its death means depends on whether it died alone.
Failure child_failure(Zygote& zygote, const Failure& why) {
  const bool alone = zygote.alive() && why.code == "gone";
  return {why.message, alone ? "bad_task" : zygote.alive() ? why.code : "gone"};
}

bool same(const Layouts& one, const Layouts& other) {
  return one.inputs.to_json() == other.inputs.to_json() && one.state.to_json() == other.state.to_json() &&
         one.outputs.to_json() == other.outputs.to_json();
}

}  // namespace

std::uint64_t secret_number() {
  std::uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value >> 2;
}

Result<Child> Session::loaded_child(Zygote& zygote) {
  Result<Child> child = zygote.spawn();
  if (!child) {
    return child;
  }
  Result<Json> answer = child->call({{"kind", "load"},
                                     {"source", source_},
                                     {"seed", secret_number()},
                                     {"plant", planted_.load()},
                                     {"device", options_.device}},
                                    {}, kLoadTimeout);
  if (!answer) {
    return child_failure(zygote, answer.failure());
  }
  Result<sandbox::Manifest> inputs = manifest_at(*answer, "inputs");
  Result<sandbox::Manifest> state = manifest_at(*answer, "state");
  Result<sandbox::Manifest> outputs = manifest_at(*answer, "outputs");
  for (const auto* manifest : {&inputs, &state, &outputs}) {
    if (!*manifest) {
      return Failure{manifest->failure().message, "bad_task"};
    }
  }
  Layouts described{std::move(*inputs), std::move(*state), std::move(*outputs)};
  if (opened_) {  // others read what was described when it was opened
    if (!same(described, layouts_)) {
      return Failure{"the task's tensors have other shapes, dtypes or strides with another seed", "bad_task"};
    }
  } else {
    layouts_ = std::move(described);
    init_ = answer->value("init", Json());
  }
  planted_ = answer->value("planted", false);
  if (!answer->value("deterministic", true)) {
    return Failure{"the task is not deterministic: two calls with the same inputs differ", "bad_task"};
  }
  return child;
}

Session::~Session() = default;

Result<std::shared_ptr<Session>> Session::open(Zygote& zygote, const std::string& source,
                                               const SessionOptions& options) {
  auto session = std::make_shared<Session>();
  session->options_ = options;
  session->source_ = source;
  session->hash_ = sha256_hex(source);
  Result<std::shared_ptr<Batch>> batch =
      session->make_batch(zygote, kVerificationSets, kVerificationSets + kTimedSets, options.oracle);
  if (!batch) {
    return batch.failure();
  }
  session->batch_ = *batch;
  session->count();
  session->opened_ = true;
  return session;
}

std::size_t Session::set_bytes() const {
  return std::max<std::size_t>(
      64, layouts_.inputs.region_bytes + layouts_.state.region_bytes + layouts_.outputs.region_bytes);
}

std::size_t Session::batch_bytes() const {
  return std::max(bytes(), std::min(options_.budget, set_bytes() * (kVerificationSets + kTimedSets)));
}

// `wanted` sets where the memory allows it, the first `verified` of them also computed in fp64.
Result<std::shared_ptr<Batch>> Session::make_batch(Zygote& zygote, std::size_t verified, std::size_t wanted,
                                                   Oracle oracle) {
  Result<Child> child = loaded_child(zygote);
  if (!child) {
    return child.failure();
  }
  const std::size_t bytes = set_bytes();
  const std::size_t affordable = options_.budget / bytes;
  if (affordable < kVerificationSets + 2) {
    return Failure{"task too large: a set of inputs, state and outputs takes " + std::to_string(bytes >> 20) + " MiB",
                   "bad_task"};
  }
  const std::size_t count = std::min(wanted, affordable);
  if (!opened_ && count * bytes > options_.most_to_open) {
    return Failure{"the sets of the task take " + std::to_string(count * bytes >> 20) + " MiB", "large"};
  }
  auto batch = std::make_shared<Batch>();
  Json seeds = Json::array();
  std::vector<int> fds;
  Json sizes = Json::array();
  for (std::size_t i = 0; i < count; i++) {
    if (options_.make) {
      Result<SetMemory> memory = options_.make(bytes);
      if (!memory) {
        return memory.failure();
      }
      fds.push_back(memory->fd);
      sizes.push_back(memory->bytes);
      batch->sets.push_back({Region(), secret_number(), std::move(*memory)});
    } else {
      Result<Region> region = Region::make("set", bytes, Region::Others::write);
      if (!region) {
        return region.failure();
      }
      fds.push_back(region->fd());
      batch->sets.push_back({std::move(*region), secret_number()});
    }
    seeds.push_back(batch->sets.back().seed);
  }
  Result<Json> answer = child->call({{"kind", "sets"},
                                     {"seeds", seeds},
                                     {"oracles", verified},
                                     {"device", options_.device},
                                     {"sizes", sizes},
                                     {"settle", oracle == Oracle::where_it_fits},
                                     {"library", sandbox::self_directory() + "/libkhost_subject_cuda.so"}},
                                    fds, 300);
  if (!answer) {
    return child_failure(zygote, answer.failure());
  }
  // Nobody is lent them again, and 25 descriptors a task would use up a process's.
  for (Set& set : batch->sets) {
    set.region.close_file();
    if (set.device.close_file) {
      set.device.close_file();
      set.device.fd = -1;
    }
  }
  batch->oracle_error = answer->value("oracle_error", "");
  if (answer->contains("scales") && (*answer)["scales"].is_array()) {
    for (const Json& pair : (*answer)["scales"]) {
      batch->scales.push_back({pair.at(0).get<double>(), pair.at(1).get<double>()});
    }
  }
  return batch;
}

// Apart from what is asked for while a batch is made, which takes seconds.
void Session::count() {
  std::size_t sum = 0;
  for (const auto* batch : {batch_.get(), visible_.get()}) {
    for (std::size_t i = 0; batch != nullptr && i < batch->sets.size(); i++) {
      sum += batch->sets[i].region.bytes() + batch->sets[i].device.bytes;
    }
  }
  bytes_ = sum;
}

void Session::forget_sets() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) {
    batch_.reset();
    visible_.reset();
    count();
  }
}

std::shared_ptr<const Batch> Session::usable(const std::string& artefact) {
  if (!batch_ || batch_->uses >= kMostUses || !batch_->seen.insert(artefact).second) {
    return nullptr;
  }
  batch_->uses++;
  return batch_;
}

std::shared_ptr<const Batch> Session::batch_at_hand(const std::string& artefact) {
  const std::scoped_lock lock(mutex_);
  return usable(artefact);
}

Result<std::shared_ptr<const Batch>> Session::batch_for(Zygote& zygote, const std::string& artefact, Oracle oracle) {
  const std::scoped_lock lock(mutex_);
  if (std::shared_ptr<const Batch> known = usable(artefact)) {
    return known;
  }
  Result<std::shared_ptr<Batch>> fresh = make_batch(zygote, kVerificationSets, kVerificationSets + kTimedSets, oracle);
  if (!fresh) {
    return fresh.failure();
  }
  batch_ = *fresh;
  count();
  return usable(artefact);
}

std::shared_ptr<const Batch> Session::visible_at_hand() {
  const std::scoped_lock lock(mutex_);
  return visible_;
}

Result<std::shared_ptr<const Batch>> Session::visible(Zygote& zygote, Oracle oracle) {
  const std::scoped_lock lock(mutex_);
  if (!visible_) {
    Result<std::shared_ptr<Batch>> made = make_batch(zygote, kVisibleVerified, kVisibleSets, oracle);
    if (!made) {
      return made.failure();
    }
    visible_ = *made;
    count();
  }
  return std::shared_ptr<const Batch>(visible_);
}

}  // namespace khost::judge
