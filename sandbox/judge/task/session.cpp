#include "sandbox/judge/task/session.h"

#include "sandbox/judge/cpu/subject.h"

#include <algorithm>

#include "host/base/sha256.h"

namespace khost::judge {
namespace {

constexpr int kMostUses = 64;
constexpr double kLoadTimeout = 120, kCalibrationTimeout = 300, kSetsTimeout = 300;

Result<sandbox::Manifest> manifest_at(const Json& answer, const char* key) {
  if (!answer.is_object() || !answer.contains(key)) {
    return Failure{std::string("the reference described no ") + key, "bad_task"};
  }
  return sandbox::Manifest::parse(answer[key]);
}

// Of a child that was asked: what its death means depends on whether it died alone.
Failure child_failure(Zygote& zygote, const Failure& why) {
  const bool alone = zygote.alive() && why.code == "gone";
  return {why.message, alone ? "ended" : zygote.alive() ? why.code : "gone"};
}

bool same(const Layouts& one, const Layouts& other) {
  return one.inputs.to_json() == other.inputs.to_json() && one.state.to_json() == other.state.to_json() &&
         one.outputs.to_json() == other.outputs.to_json();
}

}  // namespace

Result<Child> Session::loaded_child(Zygote& zygote) {
  Result<Child> child = zygote.spawn();
  if (!child) {
    return child;
  }
  Result<Json> answer = child->call({{"kind", "load"},
                                     {"source", source_},
                                     {"seed", secret_number()},
                                     {"plant", calibration_ == nullptr || calibration_->plants()},
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
  return child;
}

Session::~Session() = default;

Result<std::shared_ptr<Session>> Session::open(Zygote& zygote, const std::string& source,
                                               const SessionOptions& options) {
  auto session = std::make_shared<Session>();
  session->options_ = options;
  session->source_ = source;
  session->hash_ = sha256_hex(source);
  session->calibration_ = options.calibration;
  Result<Child> child = session->loaded_child(zygote);
  if (!child) {
    return child.failure();
  }
  if (Status fits = session->fits_memory(); !fits) {
    return fits.failure();
  }
  if (!session->calibration_) {
    if (Status measured = session->calibrate(zygote, *child); !measured) {
      return measured.failure();
    }
  }
  Result<std::shared_ptr<Batch>> batch = session->make_batch(zygote, *child, session->kinds(options.audience));
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

// A large task may take more for the fewest sets with which it can be judged; on a device other tasks lie beside it.
std::size_t Session::most_bytes() const {
  return options_.device == "cpu" ? kLargeTaskShare * options_.budget : options_.budget;
}

std::size_t Session::affordable_sets() const {
  const std::size_t within = options_.budget / set_bytes();
  return within < kFewestSets && kFewestSets * set_bytes() <= most_bytes() ? kFewestSets : within;
}

std::size_t Session::batch_bytes() const {
  const std::size_t wanted = wanted_sets(Audience::verdict, calibration_->plants());
  return std::max(bytes(), set_bytes() * std::min(affordable_sets(), wanted));
}

// Before anything is measured, so that it is not known yet whether planted sets are among them.
Status Session::fits_memory() const {
  const std::size_t affordable = affordable_sets();
  if (affordable < kFewestSets) {
    return Failure{"task too large: a set of inputs, state and outputs takes " + std::to_string(set_bytes() >> 20) +
                       " MiB, and the judge has " + std::to_string(most_bytes() >> 20) + " MiB for " +
                       std::to_string(kFewestSets) + " of them",
                   "bad_task"};
  }
  const std::size_t bytes = std::min(affordable, wanted_sets(Audience::verdict, true)) * set_bytes();
  return bytes > options_.most_to_open
             ? Status(Failure{"the sets of the task take " + std::to_string(bytes >> 20) + " MiB", "large"})
             : ok();
}

Status Session::calibrate(Zygote& zygote, Child& child) {
  Result<Json> answer = child.call({{"kind", "calibrate"},
                                    {"seed", secret_number()},
                                    {"device", options_.device},
                                    {"settle", options_.oracle == Oracle::where_it_fits}},
                                   {}, kCalibrationTimeout);
  if (!answer) {
    return child_failure(zygote, answer.failure());
  }
  Result<Calibration> measured = Calibration::parse(*answer, layouts_.outputs);
  if (!measured) {
    return measured.failure();
  }
  calibration_ = std::make_shared<const Calibration>(std::move(*measured));
  return ok();
}

// Memory for the sets of these kinds, each with a seed that nobody else knows.
Result<std::shared_ptr<Batch>> Session::empty_batch(const Kinds& kinds) const {
  auto batch = std::make_shared<Batch>();
  batch->verified = kinds.verified;
  const std::uint64_t sign = secret_number() & 1;
  std::uint64_t planted_sets = 0;
  for (const bool planted : kinds.planted) {
    Set set;
    set.seed = secret_number();
    if (planted) {  // the last two bits of seed + 2, which reference.py takes, say which signs the last outliers have
                    // (planting.py): all four in turn. Of a verification's two sets each input has both, and they
                    // differ from input to input
      set.seed = (set.seed & ~std::uint64_t{3}) | (sign ^ (planted_sets++ & 3) ^ 2);
    }
    set.planted = planted;
    if (options_.make) {
      Result<SetMemory> memory = options_.make(set_bytes());
      if (!memory) {
        return memory.failure();
      }
      set.device = std::move(*memory);
    } else {
      Result<Region> region = Region::make("set", set_bytes(), Region::Others::write);
      if (!region) {
        return region.failure();
      }
      set.region = std::move(*region);
    }
    batch->sets.push_back(std::move(set));
  }
  return batch;
}

Kinds Session::kinds(Audience audience) const {
  return kinds_of_sets(audience, affordable_sets(), calibration_->plants());
}

Result<std::shared_ptr<Batch>> Session::make_batch(Zygote& zygote, Child& child, const Kinds& kinds) {
  Result<std::shared_ptr<Batch>> batch = empty_batch(kinds);
  if (!batch) {
    return batch;
  }
  Json seeds = Json::array(), planted = Json::array(), sizes = Json::array();
  std::vector<int> fds;
  for (const Set& set : (*batch)->sets) {
    seeds.push_back(set.seed);
    planted.push_back(set.planted);
    fds.push_back(options_.make ? set.device.fd : set.region.fd());
    if (options_.make) {
      sizes.push_back(set.device.bytes);
    }
  }
  Result<Json> answer = child.call({{"kind", "sets"},
                                    {"seeds", seeds},
                                    {"planted", planted},
                                    {"kinds", calibration_->planted_kinds},
                                    {"device", options_.device},
                                    {"sizes", sizes},
                                    {"library", sandbox::self_directory() + "/libkhost_subject_cuda.so"}},
                                   fds, kSetsTimeout);
  if (!answer) {
    return child_failure(zygote, answer.failure());
  }
  // Nobody is lent them again, and 29 descriptors a task would use up a process's.
  for (Set& set : (*batch)->sets) {
    set.region.close_file();
    if (set.device.close_file) {
      set.device.close_file();
      set.device.fd = -1;
    }
  }
  return batch;
}

Result<std::shared_ptr<Batch>> Session::new_batch(Zygote& zygote, Audience audience) {
  Result<Child> child = loaded_child(zygote);
  return child ? make_batch(zygote, *child, kinds(audience)) : child.failure();
}

Result<std::shared_ptr<const Batch>> Session::unseen(Zygote& zygote, std::size_t count) {
  if (affordable_sets() < wanted_sets(Audience::verdict, calibration_->plants()) + count) {
    return std::shared_ptr<const Batch>();
  }
  Result<Child> child = loaded_child(zygote);
  if (!child) {
    return child.failure();
  }
  Result<std::shared_ptr<Batch>> made = make_batch(zygote, *child, {std::vector<bool>(count, false), 0});
  return made ? Result<std::shared_ptr<const Batch>>(*made) : made.failure();
}

bool Session::met_before(const Batch& batch) {
  const std::scoped_lock lock(mutex_);
  return batch.uses > 1;
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

std::shared_ptr<const Batch> Session::usable(const std::string& artefact, Audience audience) {
  const bool has_sets = batch_ && (audience == Audience::verification || batch_->timed());
  if (!has_sets || batch_->uses >= kMostUses || !batch_->seen.insert(artefact).second) {
    return nullptr;
  }
  batch_->uses++;
  return batch_;
}

std::shared_ptr<const Batch> Session::batch_at_hand(const std::string& artefact, Audience audience) {
  const std::scoped_lock lock(mutex_);
  return usable(artefact, audience);
}

Result<std::shared_ptr<const Batch>> Session::batch_for(Zygote& zygote, const std::string& artefact,
                                                        Audience audience) {
  const std::scoped_lock lock(mutex_);
  if (std::shared_ptr<const Batch> known = usable(artefact, audience)) {
    return known;
  }
  Result<std::shared_ptr<Batch>> fresh = new_batch(zygote, audience);
  if (!fresh) {
    return fresh.failure();
  }
  batch_ = *fresh;
  count();
  return usable(artefact, audience);
}

std::shared_ptr<const Batch> Session::visible_at_hand() {
  const std::scoped_lock lock(mutex_);
  return visible_;
}

Result<std::shared_ptr<const Batch>> Session::visible(Zygote& zygote) {
  const std::scoped_lock lock(mutex_);
  if (!visible_) {
    Result<std::shared_ptr<Batch>> made = new_batch(zygote, Audience::agent);
    if (!made) {
      return made.failure();
    }
    visible_ = *made;
    count();
  }
  return std::shared_ptr<const Batch>(visible_);
}

}  // namespace khost::judge
