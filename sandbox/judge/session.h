// One task as the judge holds it: manifests, sets made ahead by the task's own code in a Python child, and the times of
// its baselines. Shared by the jobs of that task; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
inline constexpr std::size_t kVisibleVerified = 3;  // of the sets that an agent may learn of
inline constexpr std::size_t kVisibleSets = 6;
inline constexpr std::size_t kSetBudget = std::size_t{1} << 30;  // bytes of a task's sets; then fewer timed ones

// Memory of a set that is no Region: a GPU's. The zygote's child gets the descriptor.
struct SetMemory {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int fd = -1;
  std::function<void()> close_file = {};  // the memory stays
};

// Inputs, live state and what the reference returned, in one region of the judge.
struct Set {
  Region region;
  std::uint64_t seed = 0;
  SetMemory device = {};  // instead of the region, for target cuda
};

struct Batch {
  std::vector<Set> sets;            // verification first
  std::vector<OutputScale> scales;  // empty: no fp64 oracle, `oracle_error` says why
  std::string oracle_error;
  int uses = 0;
  std::set<std::string> seen;  // artefacts that were judged on it
};

// Sets are checked against the reference in fp64. Where the device has no room for that, they fail as `limit`, or do
// without it.
enum class Oracle { needed, where_it_fits };

// Where a task computes, and how much memory its sets may take.
struct SessionOptions {
  std::string device = "cpu";  // or cuda: then the zygote has a GPU, and `make` gives memory there
  std::size_t budget = kSetBudget;
  std::size_t most_to_open = SIZE_MAX;  // bytes of sets with which it may be opened; a larger one fails as `large`
  std::function<Result<SetMemory>(std::size_t bytes)> make = {};
  Oracle oracle = Oracle::where_it_fits;  // of the sets with which it is opened
};

struct Layouts {
  sandbox::Manifest inputs, state, outputs;
};

class BaselineSubject;

class Session {
 public:
  ~Session();
  // bad_task with the task's own error; timeout; limit for want of the device's memory; gone when the zygote is.
  static Result<std::shared_ptr<Session>> open(Zygote& zygote, const std::string& source,
                                               const SessionOptions& options = {});

  const Layouts& layouts() const { return layouts_; }
  const std::string& hash() const { return hash_; }
  const std::string& source() const { return source_; }
  bool planted() const { return planted_; }
  // What the constructor is given, as a tree of plain values (manifest.py); null where it is given anything else.
  const Json& init() const { return init_; }

  // Sets that this artefact has never met; used for at most 64 artefacts. At hand: null when they would have to be made.
  Result<std::shared_ptr<const Batch>> batch_for(Zygote& zygote, const std::string& artefact,
                                                 Oracle oracle = Oracle::where_it_fits);
  std::shared_ptr<const Batch> batch_at_hand(const std::string& artefact);

  // Sets for what an agent is told, the same ones each time. No verdict is made on them.
  Result<std::shared_ptr<const Batch>> visible(Zygote& zygote, Oracle oracle = Oracle::where_it_fits);
  std::shared_ptr<const Batch> visible_at_hand();

  // Memory of the sets at hand, and what they take when they are all there. Letting go of them, for whoever needs the
  // memory: the next batch is made anew. While one is made, they stay.
  std::size_t bytes() const { return bytes_; }
  std::size_t batch_bytes() const;
  std::size_t set_bytes() const;  // of one
  void forget_sets();

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
  // Both under mutex_. Usable: the batch at hand, when it is one that this artefact has never met.
  void count();
  std::shared_ptr<const Batch> usable(const std::string& artefact);
  Result<std::shared_ptr<Batch>> make_batch(Zygote& zygote, std::size_t verified, std::size_t wanted, Oracle oracle);

  SessionOptions options_;
  std::string source_, hash_;
  Json init_;
  Layouts layouts_;
  bool opened_ = false;  // then what is above stays
  std::atomic<bool> planted_{true};
  std::mutex mutex_;
  std::atomic<std::size_t> bytes_{0};
  std::shared_ptr<Batch> batch_, visible_;
};

std::uint64_t secret_number();  // 62 bits of getrandom(2)

}  // namespace khost::judge
