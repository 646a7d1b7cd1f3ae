// What the judge keeps about one task: manifests, secret input sets with their expected outputs, and the baselines.
// Sets come from fresh secret seeds and serve many candidates, but a candidate's process is single use and sees each
// set once. Belongs to one job at a time (lock()).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/judge/compare.h"
#include "sandbox/judge/region.h"
#include "sandbox/judge/subject.h"
#include "sandbox/judge/zygote.h"

namespace khost::judge {

inline constexpr int kSets = 6;        // verification plays all of them
inline constexpr int kOracleSets = 2;  // of which these measure the reference's error against fp64

class Session {
 public:
  // Runs the task once and draws the sets. Codes: bad_task (message "reason: text"), host, timeout, limit.
  static Result<std::shared_ptr<Session>> open(Zygote& zygote, const std::string& source);

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  const std::string& hash() const { return hash_; }
  const sandbox::Manifest& inputs() const { return inputs_; }
  const sandbox::Manifest& state() const { return state_; }
  const sandbox::Manifest& outputs() const { return outputs_; }
  const std::vector<InputSet>& sets() const { return sets_; }
  const std::vector<ErrorScale>& scales() const { return scales_; }
  const std::vector<std::uint64_t>& seeds() const { return seeds_; }  // one for each set
  std::size_t bytes() const;                                         // of memory held

  // A process that plays the task's own Model, eager or compiled; started on first use and kept, idle, since
  // compiling takes seconds.
  Result<BaselineProcess*> baseline(const std::string& mode);

 private:
  Session() = default;
  Status draw_sets();

  std::mutex mutex_;
  Zygote* zygote_ = nullptr;
  std::string source_;
  std::string hash_;
  std::unique_ptr<Child> reference_;
  sandbox::Manifest inputs_, state_, outputs_;
  std::vector<InputSet> sets_;
  std::vector<std::uint64_t> seeds_;
  std::vector<ErrorScale> scales_;
  std::unique_ptr<BaselineProcess> eager_, compile_;
};

// Sends a request to a task process and turns its {"error"} into a failure.
Result<Json> ask_task(Child& child, const Json& request, const std::vector<int>& fds, double timeout_s);

// A child that has loaded the task: for baselines and for questions about the task itself.
struct LoadedTask {
  std::unique_ptr<Child> child;
  Json manifests;
};
Result<LoadedTask> load_task(Zygote& zygote, const std::string& source);

std::uint64_t secret_seed();  // from the kernel's generator, 63 bits

}  // namespace khost::judge
