// One evaluation on the GPU from files to verdict; single use, one thread.
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

#include "host/base/lease.h"
#include "sandbox/abi/build.h"
#include "sandbox/judge/cuda/gpu.h"
#include "sandbox/judge/cuda/python_candidate.h"
#include "sandbox/judge/evaluation/decision.h"
#include "sandbox/judge/evaluation/limits.h"
#include "sandbox/judge/evaluation/report.h"
#include "sandbox/judge/request.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge::gpu {

struct ProfilerPlace;

// Whether it is the machine's fault, such as want of room: it is tried again.
bool passing(const Failure& why);

class Evaluation {
 public:
  Evaluation(Gpu& gpu, const Json& request, Purpose purpose) : gpu_(gpu), request_(request), purpose_(purpose) {}
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;
  Result<Json> run();

 private:
  bool open_device();
  bool open_task();        // without the right to the device
  bool open_task_alone();  // while nobody else works on the device, when that failed
  bool take_task(Result<std::shared_ptr<Task>> task);
  void begin_build();  // beside the opening of a new task
  bool build_kernels();
  bool make_plan();
  bool verify();
  bool bring_up_baselines();  // those that nobody has measured, without the right to the device
  bool time();
  bool bring_up_residents();  // baselines that one block did not settle, without the right to the device
  bool beside();              // those now, and no earlier reading of theirs
  bool brackets();
  bool profile();
  void profile_baselines(const ProfilerPlace& place, Zygote& zygote);
  Result<profiler::Side> profile_own(const ProfilerPlace& place);
  bool void_for(Stage stage, const Failure& failure);
  bool ended_home(Stage stage);  // the candidate did, the Python that its own are forked from
  enum class Need { nothing, lease, device, device_alone };  // what a step needs; the lease alone is shared
  struct Step {
    const char* name;
    Stage stage;
    bool (Evaluation::*run)();
    Need need;
    std::function<bool()> wanted;
  };
  // The right to use the device, and the claim to it.
  struct Right {
    explicit Right(Gpu& gpu) : claim(gpu.order_), lock(gpu.mutex_, std::defer_lock) {}
    void take() {
      claim.take();
      if (!lock) {
        lock.lock();
      }
    }
    void give_back() {
      if (lock) {
        lock.unlock();
      }
    }
    Precedence::Claim claim;
    std::unique_lock<std::mutex> lock;
  };
  bool times_wanted();  // of a task that is open
  bool run_step(const Step& step, Right& right, Lease& lease);
  // Sets that the candidate has never met, where they can be made without the right to the device.
  bool take_sets();
  Result<std::shared_ptr<const Batch>> make_sets(Device& device, bool alone);
  bool fits_often() const;  // several processes of the task take little of the device's memory
  // Subjects whose set-up is done but for its last step, so that nothing of the candidate is loaded: without the
  // right to the device. Those with a plan are made of blank processes, which are waited for first.
  bool take_blank();
  bool take_blanks();
  Result<Blank> ready_blank(double most_s);
  void give_up_ahead();
  bool start_first();
  bool start_others();
  void start_ahead(std::size_t count);
  bool starts_slowly() const;
  std::unique_ptr<Candidate> fresh(Stage stage);  // one of these, or a new one
  bool choose_subject();
  bool build_extensions();
  bool take_home();
  Result<std::unique_ptr<Candidate>> start_candidate(const Profiling* profiling = nullptr);
  Status calibrate_python();
  bool check(Candidate& subject, const Window& window, std::size_t set, Stage stage);
  bool warm(Candidate& subject, Stage stage);
  // `most` windows, or one for each timed set when it is 0.
  bool candidate_block(Candidate& subject, std::vector<double>& samples, std::size_t most);
  bool idle_block(std::unique_ptr<Candidate> subject, std::vector<double>& samples, std::size_t most);
  std::unique_ptr<Candidate> fresh_and_warm();
  Result<std::unique_ptr<GpuBaseline>> begin_baseline(const std::string& kind, Beside beside = Beside::alone);
  Result<std::unique_ptr<GpuBaseline>> start_baseline(const std::string& kind);
  Result<double> timed_block(const std::string& kind, GpuBaseline& subject, bool fresh);
  GpuBaseline* resident(const std::string& kind);  // null when none lives
  Result<double> resident_block(const std::string& kind);
  bool goes_without(const std::string& kind, const Failure& why);
  Status come_up(const std::function<Result<Baselines>()>& load);
  Result<Baselines> load_baselines(const std::vector<std::string>& kinds, std::size_t processes, Beside compiler);
  Status measure_baseline(const std::string& kind, Baselines::mapped_type loaded);
  Status measure_baselines(Baselines loaded);
  std::vector<std::string> kinds() const;    // of the baselines that the candidate is compared with
  std::vector<std::string> missing() const;  // those that nobody has measured
  bool all_is_known() const;
  Status prepare();
  Status calibrate();
  // Runs a part of what is done once for a judge or a task, and writes into the evidence how long it took.
  template <class Work>
  auto preparing(const std::string& part, const Work& work) -> decltype(work()) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = work();
    verdict_.evidence["preparation_s"][part] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }
  Result<Blank> blank_at_hand();
  Json answer() const;  // the verdict; for an agent with a text
  ProfileFacts profile_facts() const;
  void compare_with_cached();
  void compare_beside(const std::vector<std::string>& asked);
  bool same_clocks() const;  // as when the candidate was timed

  Gpu& gpu_;
  const Json& request_;
  const Purpose purpose_;
  Verdict verdict_;
  std::shared_ptr<Task> task_;
  std::shared_ptr<const Batch> batch_;  // held: the task may give it up while this one waits for the device
  std::map<std::string, std::string> files_;
  std::future<Result<sandbox::Built>> building_;
  sandbox::Built built_;
  bool python_ = false;  // the candidate is a module that runs, and no plan
  PythonProgram program_;
  std::unique_ptr<Zygote> home_;  // of the candidate's processes, when it is in Python
  sandbox::Plan plan_;
  std::string artefact_;  // hash of what is judged: the built kernels and how they are called
  Tolerances tolerances_;
  Device* device_ = nullptr;  // as it was in the beginning
  std::unique_ptr<Candidate> subject_;
  std::deque<Blank> blanks_;
  int counted_ = 0;  // of Gpu::ahead_
  std::deque<std::unique_ptr<Candidate>> ahead_;
  std::size_t blocks_ = 0;  // of the candidate; each begins with another set
  bool known_ = false;      // what is measured once for a judge and for a task was there when it was verified
  std::unique_lock<std::mutex> measuring_;  // the task's, while baselines come up that nobody has measured
  std::unique_lock<Places> place_;          // among all whose baselines come up
  std::vector<double> samples_;             // seconds of the candidate's timed calls
  std::optional<Decision> decision_;        // what these say against the baselines
  std::vector<std::string> absent_;         // open baselines of it that have no process
  double exclusive_s_ = 0;
  double longest_call_s_ = 0;     // of the verification, by the host's clock
  std::vector<double> openings_;  // what each opening took longer than with nobody on the device
  int busy_openings_ = 0, windows_ = 0;
  bool too_busy_ = false;             // the last block of the candidate
  std::vector<Mismatch> mismatches_;  // of the first wrong set
  Json kernels_;                      // of a profile, for readers
  std::string kernels_text_;
};

}  // namespace khost::judge::gpu
