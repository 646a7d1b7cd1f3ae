// The processes that run calls on the GPU: a candidate (khost-subject-cuda in its own single-use jail) and a baseline
// (a child of the Python zygote). Their memory is lent by the judge, made for one subject and freed with it. One thread
// at a time, which holds the device lock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/abi/plan.h"
#include "sandbox/judge/cuda/clock.h"
#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/cuda/idle_subject.h"
#include "sandbox/judge/task/session.h"
#include "sandbox/judge/values/compare.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge::gpu {

class Candidate {
 public:
  // Gives an idle subject to this candidate; its set-up is still to be waited for. `session` null: a plan without
  // inputs, for calibration. `library`: as for khost-subject.
  static Result<std::unique_ptr<Candidate>> start(IdleSubject blank, const Session* session, const sandbox::Plan& plan,
                                                  const std::string& library);
  virtual ~Candidate();
  // Lays out what is compared with which set. Call once, before a call.
  virtual Status expect(const Batch& batch, const Tolerances& tolerances);

  // The steps of its set-up, as the clock says; the first may be left out.
  Window prepared(double timeout_s) { return clock_->prepared(timeout_s); }
  Window ready(double timeout_s) { return clock_->ready(timeout_s); }
  // Copies a set's inputs and state to where the subject reads them.
  Status reveal(const Batch& batch, std::size_t set);
  // The output is poisoned, the set is revealed, the plan is played.
  virtual Window direct(const Batch& batch, std::size_t set, double timeout_s);
  virtual Turn queued(const Batch& batch, std::size_t set, double timeout_s);
  // What a status other than 0 of the set-up or of a call means for a verdict.
  virtual Finding blame(const Window& window) const { return {Outcome::crash, Reason::status, window.message}; }
  // The same without a session: nothing is poisoned or revealed but what `call` says.
  Window direct_again(double timeout_s) { return clock_->direct(timeout_s); }
  Turn queued_again(const Call& call, double timeout_s) { return clock_->queued(call, timeout_s); }
  const std::byte* outputs() const { return outputs_.data(); }
  virtual Call call_of(const Batch& batch, std::size_t set) const;

  // After a call, while the subject stands: what is wrong with the outputs against the expected ones of a set.
  Result<std::optional<Mismatch>> compare(const Batch& batch, std::size_t set);
  // The set of the call before the one on this set, if there was one.
  std::optional<std::size_t> before(std::size_t set) const;
  // How many sampled elements of a timed call may be wrong where a share may be.
  unsigned most_loose() const { return most_loose_; }
  // Whether inputs or state are no longer what was revealed.
  Result<bool> inputs_changed(const Batch& batch, std::size_t set);

 protected:
  explicit Candidate(Device& device) : device_(device) {}
  // Before a comparison: views_ then has `set`.
  virtual Status look_at(const Batch&, std::size_t) { return ok(); }
  virtual const View& view(std::size_t set, std::size_t output) const {
    return views_[set * session_->layouts().outputs.tensors.size() + output];
  }
  Call revealing(const Batch& batch, std::size_t set) const;  // spans alone
  Status poison_outputs();
  Status lay_out_tolerances(const Tolerances& tolerances);
  const Tolerance* tolerances_of(const Set& set) const;  // on the device
  Result<Mismatch> mismatch(const Batch& batch, std::size_t set, std::size_t output, Reproach reproach,
                            const Difference& found) const;
  Result<double> value_at(const std::byte* base, std::int64_t index, const sandbox::TensorLeaf& leaf) const;
  Device& device_;
  const Session* session_ = nullptr;
  sandbox::Plan plan_;
  Region control_, text_;
  Lent inputs_, state_, outputs_;
  sandbox::Fd library_;
  std::unique_ptr<sandbox::Jail> jail_;
  std::unique_ptr<GpuClock> clock_;
  std::vector<View> views_;       // of all sets, one after the other
  std::vector<std::size_t> met_;  // sets of its calls, in order
  Tolerances tolerances_;
  unsigned most_loose_ = 0;
  Memory views_on_device_, tolerances_on_device_, differences_;
};

// What a baseline process may do while it loads. `alone`: anything, since nothing else uses the device. The others load
// while other processes run, where a measurement would mislead, so an attempt to measure fails: `wait` makes the model
// and stops; `build` compiles every variant that the compiler might choose, for the processes that load the cache
// later, and is never timed; `load` loads what an earlier process has chosen.
enum class Beside { alone, wait, build, load };

class GpuBaseline {
 public:
  // kind: eager, compile, empty. Several may load in parallel, and while other work runs: begin() and loaded() need the
  // device's context current, and no lock. Each is loaded, then made ready under the device lock, which takes a minute
  // or more for one that compiles, and then called.
  static Result<std::unique_ptr<GpuBaseline>> begin(Device& device, Zygote& zygote, const Session& session,
                                                    const Batch& batch, const std::string& kind,
                                                    Beside beside = Beside::alone);
  Status loaded(double timeout_s);
  Status ready(double timeout_s);
  bool alive() { return !child_.ended(); }
  void end() { child_.kill(); }  // begins what the destructor waits for
  // Reveals without a call.
  Window direct(const Batch& batch, std::size_t set, double timeout_s);
  Turn queued(const Batch& batch, std::size_t set, double timeout_s);

 private:
  explicit GpuBaseline(Device& device) : device_(device) {}
  Status reveal(const Batch& batch, std::size_t set);
  Device& device_;
  const Session* session_ = nullptr;
  Region control_;
  Lent inputs_, state_;
  Memory dummy_;  // sampled when a call closes, so that closing costs what it costs for a candidate
  Memory view_on_device_;
  Child child_;
  std::unique_ptr<GpuClock> clock_;
};

}  // namespace khost::judge::gpu
