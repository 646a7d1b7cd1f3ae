// A candidate in Python alive: a child of a zygote that serves this candidate alone, under a uid of its own, on memory
// of the judge. What forward returns lies in an arena that the judge lends; where in it, the process says with each
// call, and of that only the place is believed: structure, types and sizes must be the reference's.
// One thread at a time, which holds the device lock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sandbox/judge/cuda/subject.h"

namespace khost::judge::gpu {

// A candidate's file, and the extensions that it asks for.
struct PythonProgram {
  std::string source;
  Json init;                                                   // Session::init()
  std::vector<std::pair<std::string, std::string>> libraries;  // key -> path
  std::vector<std::string> sources;                            // of its extensions
  std::string rules = "own";                                   // or mixed; then (khost/candidate/candidate_mixed.py):
  int most_operators = 0;                                      // of torch that compute, in one call
  bool audits = false;                                         // whether own kernels are replaced, call by call
};

class PythonCandidate final : public Candidate {
 public:
  // `session` null: a process that launches an empty kernel, for calibration. Returns while it sets itself up: ready()
  // waits for it. With `profiling` the times of its calls mean nothing.
  static Result<std::unique_ptr<PythonCandidate>> start(Device& device, const Session* session, Zygote& home,
                                                        const PythonProgram& program,
                                                        const Profiling* profiling = nullptr);
  ~PythonCandidate() override;
  Status expect(const Batch& batch, const Tolerances& tolerances) override;
  Window direct(const Batch& batch, std::size_t set, double timeout_s) override;
  Turn queued(const Batch& batch, std::size_t set, double timeout_s) override;
  Finding blame(const Window& window) const override;
  Call call_of(const Batch& batch, std::size_t set) const override;

 private:
  explicit PythonCandidate(Device& device) : Candidate(device) {}
  Status look_at(const Batch& batch, std::size_t set) override;
  const View& view(std::size_t, std::size_t output) const override { return views_[output]; }
  // Takes what the process says about its outputs; what is wrong with it becomes the window's status.
  void take_report(Window& window);
  Status poison_returned();
  Region report_;
  std::vector<sandbox::Fd> libraries_;
  Child child_;
  sandbox::Manifest returned_;  // matched with the reference's, inside the arena
  bool known_ = false;          // whether there is one
};

}  // namespace khost::judge::gpu
