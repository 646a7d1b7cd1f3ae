// The CPU target of an evaluation (evaluation/evaluation.h).
//
// evaluation.cpp: the steps before any candidate lives. evaluation_verify.cpp: calls and what they returned.
// evaluation_mixed.cpp: what the answer is worth without the candidate's own kernels. evaluation_unseen.cpp: sets that
// nobody has met, and blocks that are taken again. evaluation_time.cpp: blocks and baselines.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/judge/cpu/subject.h"
#include "sandbox/judge/evaluation/evaluation.h"
#include "sandbox/judge/evaluation/repeated.h"
#include "sandbox/judge/service/service.h"

namespace khost::judge {

class CpuEvaluation : public Evaluation {
 public:
  CpuEvaluation(Service& service, const Json& request, Purpose purpose)
      : Evaluation(request, purpose), service_(service), threads_(std::max(1, request.value("threads", 1))) {}

 private:
  std::vector<Step> steps() override;
  bool run_step(const Step& step) override;
  void ended(bool passed) override;
  bool verified(std::size_t set) override;
  std::uint64_t seed_of(std::size_t set) const override { return set_at(set).seed; }
  const Baseline* cached(const std::string& kind) override;
  std::string why_unavailable(const std::string& kind) override { return session_->unavailable[kept_as(kind)]; }
  Result<double> baseline_block(const std::string& kind) override { return baseline_block(kind, Process::resident); }
  std::optional<double> bracket_block() override;
  bool goes_on_without(const std::string& kind, const Failure& why) override;
  bool disturbed() const override { return !steady_; }
  ProfileFacts profile_facts() const override;
  bool open_task();
  bool build_kernels();
  bool make_plan();
  bool verify();
  bool audit();
  bool time();

  // evaluation_verify.cpp
  bool take_batch();
  bool matches(const Subject& subject, const Set& set) const;
  bool right(const Subject& subject, const Window& window, std::size_t set) const;
  bool check(Subject& subject, const Window& window, std::size_t set, Stage stage);
  Reason reason_for(Subject& subject, std::size_t set);
  bool stale_weights(Subject& subject, std::size_t set);
  std::unique_ptr<Subject> fresh(Stage stage);

  // evaluation_mixed.cpp
  Result<std::unique_ptr<Subject>> start(Stage stage);
  enum class Stand : unsigned char { replay, stale, poison, skip };  // in the place of launches (mixed_audit.py)
  Window audited(Subject& subject, Stand stand, std::size_t set);
  bool counts_hold(Subject& subject, int reference);
  std::string not_replayed(const Subject& subject, const Window& window, std::size_t set) const;
  bool own_work_matters(Subject& subject);
  std::size_t another_answer(std::size_t set) const;
  void tell_share(Subject& operators);

  // evaluation_unseen.cpp
  const Set& set_at(std::size_t place) const;
  bool is_unseen(std::size_t place) const;
  bool add_unseen(std::vector<std::size_t>& order, std::size_t count);
  void compare_unseen(const std::vector<double>& seen, const std::vector<double>& unseen, bool undisturbed);
  bool steady_block(std::unique_ptr<Subject> subject, std::vector<double>& samples);
  bool fresh_block(std::vector<double>& samples);

  // evaluation_time.cpp
  struct Exclusive;
  bool candidate_block(Subject& subject, std::vector<double>& samples);
  enum class Process { fresh, resident };
  Result<double> baseline_block(const std::string& kind, Process process);
  Result<double> baseline_windows(const std::string& kind, Process process);
  Result<BaselineSubject*> baseline(const std::string& kind, Process process);
  bool settled(const std::string& kind) const;
  std::string kept_as(const std::string& kind) const;
  bool measure_baseline(const std::string& kind);
  void calibrate();
  bool calibrate_plan();
  bool decide(const std::vector<double>& samples);
  bool below_floor(double seconds);

  Service& service_;
  const int threads_;
  Zygote* zygote_ = nullptr;
  std::vector<std::shared_ptr<const Batch>> unseen_batches_;
  std::vector<const Set*> unseen_;  // of these, in the order in which they are met
  std::size_t unseen_met_ = 0;
  bool wants_unseen_ = false;     // in the next block
  bool remembered_ = false;       // the last block was faster on sets that may be known
  bool doubtful_ = false;         // it seemed so, and a window on a new set was disturbed
  Region own_;                    // by `mixed`: what the launches wrote in the first verified call
  std::size_t recorded_set_ = 0;  // that call's
  Repeated repeated_;             // what shares excused in all sets so far
  std::unique_ptr<Subject> subject_;
  Lease* lease_ = nullptr;                     // while timing
  Baseline self_;                              // the candidate against itself: its own processes as a baseline
  std::map<std::string, Baseline> disturbed_;  // baselines that are not kept
  std::size_t dropped_ = 0;                    // the candidate's windows that were disturbed
  bool steady_candidate_ = true;
  bool steady_ = true;  // of the last block
  double exclusive_s_ = 0;
};

}  // namespace khost::judge
