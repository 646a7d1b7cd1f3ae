// One task as the judge holds it: manifests, sets made ahead by the task's own code in a Python child, and the times of
// its baselines. Shared by the jobs of that task; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/judge/cpu/clock.h"
#include "sandbox/judge/evaluation/statistics.h"
#include "sandbox/judge/task/sets.h"
#include "sandbox/judge/task/zygote.h"
#include "sandbox/judge/values/calibrated.h"

namespace khost::judge {

inline constexpr std::size_t kSetBudget = std::size_t{1} << 30;  // bytes of a task's sets; then fewer timed ones
inline constexpr std::size_t kLargeTaskShare = 2;  // of the budget, for a large task's fewest sets on the CPU

// A task's bounds are measured against its reference in fp64. Where the device has no room for that, opening the task
// fails as `limit`, or does without it.
enum class Oracle { needed, where_it_fits };

// Where a task computes, and how much memory its sets may take.
struct SessionOptions {
  std::string device = "cpu";  // or cuda: then the zygote has a GPU, and `make` gives memory there
  std::size_t budget = kSetBudget;
  std::size_t most_to_open = SIZE_MAX;  // bytes of sets with which it may be opened; a larger one fails as `large`
  std::function<Result<SetMemory>(std::size_t bytes)> make = {};
  Oracle oracle = Oracle::where_it_fits;
  Audience audience = Audience::verdict;  // whom the first batch is for
  // Of an earlier session of the same task: then nothing is measured.
  std::shared_ptr<const Calibration> calibration = nullptr;
};

struct Layouts {
  sandbox::Manifest inputs, state, outputs;
};

class BaselineSubject;

class Session {
 public:
  ~Session();
  // bad_task with the task's own error, or with what makes it impossible to judge (Calibration::parse); timeout; limit
  // for want of the device's memory; gone when the zygote is.
  static Result<std::shared_ptr<Session>> open(Zygote& zygote, const std::string& source,
                                               const SessionOptions& options = {});

  const Layouts& layouts() const { return layouts_; }
  const std::string& hash() const { return hash_; }
  const std::string& source() const { return source_; }
  const std::shared_ptr<const Calibration>& calibration() const { return calibration_; }
  // What the constructor is given, as a tree of plain values (manifest.py); null where it is given anything else.
  const Json& init() const { return init_; }

  // Sets that this artefact has never met, for a verdict with or without times; used for at most 64 artefacts. At hand:
  // null when they would have to be made.
  Result<std::shared_ptr<const Batch>> batch_for(Zygote& zygote, const std::string& artefact,
                                                 Audience audience = Audience::verdict);
  std::shared_ptr<const Batch> batch_at_hand(const std::string& artefact, Audience audience = Audience::verdict);

  // Drawn sets for one verdict, which nobody else meets; null where there is no memory for them beside a batch.
  Result<std::shared_ptr<const Batch>> unseen(Zygote& zygote, std::size_t count);
  // Whether another artefact has met these sets.
  bool met_before(const Batch& batch);

  // Sets for what an agent is told, the same ones each time. No verdict is made on them.
  Result<std::shared_ptr<const Batch>> visible(Zygote& zygote);
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

  std::map<std::string, Baseline> baselines;       // eager, compile
  std::map<std::string, std::string> unavailable;  // why a baseline has no time
  // Processes kept, frozen, for brackets: starting a compiled one takes seconds. Guarded by the right to time.
  std::map<std::string, std::unique_ptr<BaselineSubject>> residents;

 private:
  Result<Child> loaded_child(Zygote& zygote);
  // Both under mutex_. Usable: the batch at hand, when it has the sets and is one that this artefact has never met.
  void count();
  std::shared_ptr<const Batch> usable(const std::string& artefact, Audience audience);
  Status fits_memory() const;
  std::size_t most_bytes() const;       // of a task's fewest sets
  std::size_t affordable_sets() const;  // fewer than kFewestSets: the task is too large
  Status calibrate(Zygote& zygote, Child& child);
  Result<std::shared_ptr<Batch>> empty_batch(const Kinds& kinds) const;
  Result<std::shared_ptr<Batch>> make_batch(Zygote& zygote, Child& child, const Kinds& kinds);
  Kinds kinds(Audience audience) const;
  Result<std::shared_ptr<Batch>> new_batch(Zygote& zygote, Audience audience);

  SessionOptions options_;
  std::string source_, hash_;
  Json init_;
  Layouts layouts_;
  bool opened_ = false;  // then what is above stays
  std::shared_ptr<const Calibration> calibration_;
  std::mutex mutex_;
  std::atomic<std::size_t> bytes_{0};
  std::shared_ptr<Batch> batch_, visible_;
};

}  // namespace khost::judge
