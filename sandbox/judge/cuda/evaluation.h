// The GPU target of an evaluation (evaluation/evaluation.h).
//   evaluation.cpp            the table of steps, and which locks each step holds
//   evaluation_python.cpp     extensions and processes of a candidate in Python
//   evaluation_mixed.cpp      the rule set `mixed`
//   evaluation_verify.cpp     sets, processes started in advance, checked calls
//   evaluation_baselines.cpp  baseline processes and their timing
//   evaluation_time.cpp       the candidate's timed calls, and the decision against the baselines
//   evaluation_profile.cpp    kernel tables for readers
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/judge/cuda/gpu.h"
#include "sandbox/judge/cuda/python_candidate.h"
#include "sandbox/judge/evaluation/evaluation.h"
#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge::gpu {

struct ProfilerPlace;

// Whether the failure is the machine's, such as a lack of GPU memory, so that a second try makes sense.
bool passing(const Failure& why);

class GpuEvaluation : public Evaluation {
 public:
  GpuEvaluation(Gpu& gpu, const Json& request, Purpose purpose)
      : Evaluation(request, purpose),
        gpu_(gpu),
        turn_(gpu.schedule_, wants_times(request, purpose)),
        queues_(wants_times(request, purpose) ? Queues::all : Queues::few) {}
  ~GpuEvaluation() override;

 private:
  std::vector<Step> steps() override;
  bool run_step(const Step& step) override;
  void ended(bool passed) override;
  bool verified(std::size_t set) override;
  std::uint64_t seed_of(std::size_t set) const override { return batch_->sets[set].seed; }
  const Baseline* cached(const std::string& kind) override;
  std::string why_unavailable(const std::string& kind) override { return session_->unavailable.at(kind); }
  Result<double> baseline_block(const std::string& kind) override { return resident_block(kind); }
  std::optional<double> bracket_block() override;
  bool goes_on_without(const std::string& kind, const Failure& why) override;
  bool disturbed() const override { return false; }  // idle_block() has taken such a block again
  ProfileFacts profile_facts() const override;
  void complete_profile(Json& answer) const override;

  bool begin();
  bool open_device();
  bool open_task();        // without the device lock
  bool open_task_alone();  // a second try, while no other evaluation uses the device
  bool take_task(Result<std::shared_ptr<Task>> task);
  void begin_build();  // in parallel with the opening of a new task
  bool build_kernels();
  bool make_plan();
  bool verify();
  bool load_missing_baselines();  // baselines without a measurement; without the device lock
  bool time();
  bool load_absent_baselines();  // baselines that the cached time did not decide; without the device lock
  bool beside();                 // times these baselines again, ignoring cached times
  bool take_brackets();
  bool profile();
  void profile_baselines(const ProfilerPlace& place, Zygote& zygote);
  Result<profiler::Side> profile_own(const ProfilerPlace& place);
  bool killed_its_zygote(Stage stage);  // the candidate killed the Python process its own workers are forked from
  enum Need : int { kNothing, kStart, kDevice, kDeviceAlone };  // what a step needs of the schedule
  // Gets sets that the candidate has not seen, if they can be made without the device lock.
  bool take_sets();
  Result<std::shared_ptr<const Batch>> make_sets(Device& device, bool alone);
  bool fits_often() const;  // several processes of the task take little GPU memory
  // Starts subjects in advance, up to the last step of their set-up, so that nothing of the candidate is loaded yet;
  // without the device lock. Subjects with a plan are made from idle subjects, which are waited for first.
  bool take_idle_subject();
  bool take_idle_subjects();
  Result<IdleSubject> ready_idle_subject(double most_s);
  void give_up_ahead();
  bool start_first();
  bool start_others();
  void start_ahead(std::size_t count);
  bool starts_slowly() const;
  std::unique_ptr<Candidate> fresh(Stage stage);  // a subject started in advance, or a new one
  bool choose_subject();
  bool build_extensions();
  bool limit_operators();
  bool audit();
  Result<bool> right_without_own_work(Candidate& subject, std::size_t set);
  void tell_share();
  bool take_python();
  void end_subject(const Step& step, DeviceSchedule::Held& used);
  Result<std::unique_ptr<Candidate>> start_candidate(const Profiling* profiling = nullptr);
  Status calibrate_python();
  bool check(Candidate& subject, const Window& window, std::size_t set, Stage stage);
  bool warm(Candidate& subject, Stage stage);
  // Times `most` calls, or one for each timed set when it is 0.
  bool candidate_block(Candidate& subject, std::vector<double>& samples, std::size_t most);
  bool idle_block(std::unique_ptr<Candidate> subject, std::vector<double>& samples, std::size_t most);
  std::unique_ptr<Candidate> fresh_and_warm();
  Result<std::unique_ptr<GpuBaseline>> begin_baseline(const std::string& kind, Beside beside = Beside::alone);
  Result<std::unique_ptr<GpuBaseline>> start_baseline(const std::string& kind);
  Result<double> timed_block(const std::string& kind, GpuBaseline& subject, bool fresh);
  GpuBaseline* resident(const std::string& kind);  // null when there is no live process
  Result<double> resident_block(const std::string& kind);
  bool skips_baseline(const std::string& kind, const Failure& why);
  Status load_pending(const std::function<Result<Baselines>()>& load);
  Result<Baselines> load_baselines(const std::vector<std::string>& kinds, std::size_t processes, Beside compiler);
  Status measure_baseline(const std::string& kind, Baselines::mapped_type loaded);
  Status measure_baselines(Baselines loaded);
  std::vector<std::string> missing() const;  // the baselines without a measurement
  bool all_is_known() const;
  Status prepare();
  Status calibrate();
  // Runs a preparation that is done once for a judge or a task, and records its duration in the evidence.
  template <class Work>
  auto preparing(const std::string& part, const Work& work) -> decltype(work()) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = work();
    verdict_.evidence["preparation_s"][part] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }
  Result<IdleSubject> idle_subject();
  void compare_beside(const std::vector<std::string>& asked);
  bool same_clocks() const;  // whether the device's clocks are as they were when the candidate was timed

  Gpu& gpu_;
  DeviceSchedule::Turn turn_;
  const Queues queues_;  // of its subjects
  std::shared_ptr<Task> task_;
  std::future<Result<sandbox::Built>> building_;
  bool python_ = false;  // the candidate is a Python module, not a plan of launches
  PythonProgram program_;
  std::unique_ptr<Zygote> own_zygote_;  // forks the candidate's processes when it is in Python
  Device* device_ = nullptr;            // the device this evaluation began with
  std::unique_ptr<Candidate> subject_;
  std::deque<IdleSubject> idle_subjects_;
  int reserved_ = 0;  // of DeviceSchedule::reserve()
  std::deque<std::unique_ptr<Candidate>> ahead_;
  std::size_t blocks_ = 0;                  // timed blocks of the candidate; each begins with another set
  bool known_ = false;                      // whether all one-time measurements existed when it was verified
  std::unique_lock<std::mutex> measuring_;  // Task::measuring, while missing baselines load
  std::unique_lock<Semaphore> loading_slot_;
  std::vector<double> samples_;       // seconds of the candidate's timed calls
  std::optional<Decision> decision_;  // compares samples_ with the baselines
  std::vector<std::string> absent_;   // undecided baselines that have no running process
  double exclusive_s_ = 0;
  double longest_call_s_ = 0;     // during verification, by the host's clock
  std::vector<double> openings_;  // each opening's time beyond that on an idle device
  int busy_openings_ = 0, windows_ = 0;
  bool too_busy_ = false;  // whether too many openings of the last block were busy
  Json kernels_;           // a profile's table, for readers
  std::string kernels_text_;
};

}  // namespace khost::judge::gpu
