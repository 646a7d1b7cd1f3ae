// One task as the judge holds it: manifests, sets made ahead by the task's own code in a Python child, and the times of
// its baselines. Shared by the jobs of that task; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/judge/clock.h"
#include "sandbox/judge/compare.h"
#include "sandbox/judge/region.h"
#include "sandbox/judge/statistics.h"
#include "sandbox/judge/zygote.h"

namespace khost::judge {

inline constexpr std::size_t kVerificationSets = 5;
inline constexpr std::size_t kTimedSets = 20;
inline constexpr std::size_t kSetBudget = std::size_t{1} << 30;  // bytes of a task's sets; then fewer timed ones

// Inputs, live state and what the reference returned, in one region of the judge.
struct Set {
  Region region;
  std::uint64_t seed = 0;
};

struct Batch {
  std::vector<Set> sets;            // verification first
  std::vector<OutputScale> scales;  // empty: no fp64 oracle, `oracle_error` says why
  std::string oracle_error;
  int uses = 0;
  std::set<std::string> seen;       // artefacts that were judged on it
};

struct Layouts {
  sandbox::Manifest inputs, state, outputs;
};

class BaselineSubject;

class Session {
 public:
  ~Session();
  // bad_task with the task's own error; gone when the zygote is.
  static Result<std::shared_ptr<Session>> open(Zygote& zygote, const std::string& source);

  const Layouts& layouts() const { return layouts_; }
  const std::string& hash() const { return hash_; }
  const std::string& source() const { return source_; }
  bool deterministic() const { return deterministic_; }
  bool planted() const { return planted_; }

  // Sets that this artefact has never met; used for at most 64 artefacts.
  Result<std::shared_ptr<const Batch>> batch_for(Zygote& zygote, const std::string& artefact);

  const std::byte* inputs_of(const Set& set) const { return set.region.data(); }
  const std::byte* state_of(const Set& set) const { return set.region.data() + layouts_.inputs.region_bytes; }
  const std::byte* expected_of(const Set& set) const { return state_of(set) + layouts_.state.region_bytes; }

  std::mutex baselines_mutex;
  std::map<std::string, Baseline> baselines;       // eager, compile
  std::map<std::string, std::string> unavailable;  // why a baseline has no time
  // Processes kept, frozen, for brackets: starting a compiled one takes seconds. Guarded by the right to time.
  std::map<std::string, std::unique_ptr<BaselineSubject>> residents;

 private:
  Result<Child> loaded_child(Zygote& zygote);
  Result<std::shared_ptr<Batch>> make_batch(Zygote& zygote);

  std::string source_, hash_;
  Layouts layouts_;
  bool deterministic_ = true, planted_ = true;
  std::mutex mutex_;
  std::shared_ptr<Batch> batch_;
};

std::uint64_t secret_number();  // 62 bits of getrandom(2)

}  // namespace khost::judge
