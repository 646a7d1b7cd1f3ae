// One evaluation on the GPU from files to verdict; single use, one thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sandbox/abi/build.h"
#include "sandbox/judge/cuda/gpu.h"
#include "sandbox/judge/cuda/python_candidate.h"
#include "sandbox/judge/request.h"
#include "sandbox/verdict.h"

namespace khost::judge::gpu {

struct ProfilerPlace;

inline constexpr std::size_t kWarmUps = 3;  // calls of a process before one is timed

class Evaluation {
 public:
  Evaluation(Gpu& gpu, const Json& request, Purpose purpose) : gpu_(gpu), request_(request), purpose_(purpose) {}
  Result<Json> run();

 private:
  bool open_task();
  bool build_kernels();
  bool make_plan();
  bool verify();
  bool time();
  bool profile();
  void profile_baselines(const ProfilerPlace& place, Zygote& zygote);
  Result<profiler::Side> profile_own(const ProfilerPlace& place);
  bool void_for(const char* stage, const Failure& failure);
  std::unique_ptr<Candidate> fresh(const char* stage);
  bool choose_subject();
  bool build_extensions();
  bool take_home();
  Result<std::unique_ptr<Candidate>> start_candidate(const Profiling* profiling = nullptr);
  Status calibrate_python();
  bool check(Candidate& subject, const Window& window, std::size_t set, const char* stage);
  bool warm(Candidate& subject, const char* stage);
  bool candidate_block(Candidate& subject, std::vector<double>& samples);
  enum class Process { fresh, resident };
  Result<double> baseline_block(const std::string& kind, Process process);
  void measure_baseline(const std::string& kind);
  Status calibrate();
  Json answer() const;             // the verdict; for an agent with a text
  std::string verify_text() const;
  std::string profile_text() const;
  bool decide_on(const std::string& kind, const std::vector<double>& samples);

  Gpu& gpu_;
  const Json& request_;
  const Purpose purpose_;
  sandbox::Verdict verdict_;
  std::shared_ptr<Task> task_;
  std::shared_ptr<const Batch> batch_;  // held: the task may give it up while this one waits for the device
  std::map<std::string, std::string> files_;
  sandbox::Built built_;
  bool python_ = false;  // the candidate is a module that runs, and no plan
  PythonProgram program_;
  std::unique_ptr<Zygote> home_;  // of the candidate's processes, when it is in Python
  sandbox::Plan plan_;
  std::vector<Tolerance> tolerance_;
  std::unique_ptr<Candidate> subject_;
  std::size_t verified_ = kVerificationSets;  // sets of the batch that come before the timed ones
  double longest_call_s_ = 0;  // of the verification, by the host's clock
  std::vector<double> openings_;  // what each opening took longer than with nobody on the device
  int busy_openings_ = 0, windows_ = 0;
  Json kernels_;              // of a profile, for readers
  std::string kernels_text_;
};

}  // namespace khost::judge::gpu
