// One evaluation from files to verdict, what it is on every target; single use, one thread. The steps: open the task,
// build, plan, verify on sets, time. The same steps answer an agent's questions (verify, profile), on sets that are
// made for that and judge nothing.
//
// A target is a class below this one. It gives the table of its steps and the bodies that touch its machine, and asks
// here for what must not differ between targets: which request is legal, what a failure of a step means, how sets are
// gone through, how the candidate is compared with its baselines, what an agent is told.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/build/build.h"
#include "sandbox/judge/evaluation/decision.h"
#include "sandbox/judge/evaluation/report.h"
#include "sandbox/judge/service/request.h"
#include "sandbox/judge/task/planning.h"
#include "sandbox/judge/task/session.h"
#include "sandbox/judge/values/compare.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge {

class Evaluation {
 public:
  virtual ~Evaluation() = default;
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;
  // A verdict as JSON; for an agent also "kind", "ok" and "text". bad_input for a request without files.
  Result<Json> run();

 protected:
  Evaluation(const Json& request, Purpose purpose) : request_(request), purpose_(purpose) {}

  // Each body says whether the evaluation goes on; the verdict has the failure where it does not.
  struct Step {
    const char* name;  // under which its seconds stand in the verdict
    Stage stage;
    std::function<bool()> body;
    std::function<bool()> wanted;  // asked when its turn comes
    int needs = 0;                 // of the target's own words
  };

  // What a target is.
  virtual std::vector<Step> steps() = 0;
  // A step with what it needs held, and timed.
  virtual bool run_step(const Step& step) = 0;
  // After the last step, or after the one that did not pass; before the answer is made.
  virtual void ended(bool passed) = 0;
  // Calls the candidate on a set and looks at what it returned.
  virtual bool verified(std::size_t set) = 0;
  virtual std::uint64_t seed_of(std::size_t set) const = 0;
  // The reading of a baseline. Null where there is none, and then why.
  virtual const Baseline* cached(const std::string& kind) = 0;
  virtual std::string why_unavailable(const std::string& kind) = 0;
  // Medians of blocks, in seconds: of a baseline, and of the candidate in a fresh process. Nothing where it failed.
  virtual Result<double> baseline_block(const std::string& kind) = 0;
  virtual std::optional<double> bracket_block() = 0;
  // Whether the last block says nothing, since others disturbed it.
  virtual bool disturbed() const = 0;
  // Whether a verdict is given although a baseline gave no block.
  virtual bool goes_on_without(const std::string& kind, const Failure& why) = 0;
  virtual ProfileFacts profile_facts() const = 0;
  virtual void complete_profile(Json& answer) const { (void)answer; }

  // What holds on every target.
  bool opened(std::shared_ptr<Session> session);
  bool built(Result<sandbox::Built> built);
  bool planned(const std::string& rules, const std::function<Result<Zygote*>()>& recorder);
  std::string artefact() const;  // of what was built and how it is launched
  bool take_tolerances();
  bool verify_on(const std::vector<std::size_t>& sets);
  // The first wrong set. `mismatches`: one for each wrong output.
  bool wrong(Stage stage, std::size_t set, Reason reason, std::vector<Mismatch> mismatches);
  bool void_for(Stage stage, const Failure& failure);
  bool times_wanted();
  Audience audience() const;                   // whom the secret sets are for that it needs
  std::vector<std::string> opponents() const;  // the baselines that the candidate is compared with
  Decision read_cached(Decision::Rules rules, const std::vector<double>& samples, bool steady);
  bool brackets(Decision& decision);

  const Json& request_;
  const Purpose purpose_;
  Verdict verdict_;
  std::map<std::string, std::string> files_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<const Batch> batch_;
  sandbox::Built built_;
  sandbox::Plan plan_;
  Tolerances tolerances_;
  std::vector<Mismatch> mismatches_;  // of the first wrong set

 private:
  bool feed(Decision& decision, void (Decision::*with)(const std::string&, double));
  Json answer();
};

}  // namespace khost::judge
