#include "sandbox/judge/evaluation/evaluation.h"

#include <utility>

#include "host/base/sha256.h"
#include "sandbox/judge/evaluation/blame.h"

namespace khost::judge {

Result<Json> Evaluation::run() {
  if (!request_.contains("files") || !request_["files"].is_object()) {
    return Failure{"the request needs files", "bad_input"};
  }
  files_ = candidate_files(request_["files"]);
  verdict_.rules = *rules_of(request_);  // the service has refused other words
  bool passed = true;
  for (const Step& step : steps()) {
    if (step.wanted && !step.wanted()) {
      continue;
    }
    verdict_.enter(step.stage);
    if (!run_step(step)) {
      passed = false;
      break;
    }
  }
  ended(passed);
  if (passed) {
    verdict_.pass();
  }
  return answer();
}

bool Evaluation::opened(std::shared_ptr<Session> session) {
  session_ = std::move(session);
  verdict_.evidence["task_hash"] = session_->hash();
  return can_judge(request_, *session_->calibration(), verdict_);
}

bool Evaluation::built(Result<sandbox::Built> built) {
  if (!built) {
    verdict_.fail(Stage::build, blame_build(built.failure()));
    return false;
  }
  built_ = std::move(*built);
  verdict_.evidence["artefact_hash"] = built_.hash;
  return true;
}

bool Evaluation::planned(const std::string& rules, const std::function<Result<Zygote*>()>& recorder) {
  Result<sandbox::Plan> plan = plan_of({files_, built_, *session_, rules}, recorder);
  if (!plan) {
    verdict_.fail(Stage::plan, blame_plan(plan.failure()));
    return false;
  }
  plan_ = std::move(*plan);
  return true;
}

std::string Evaluation::artefact() const {
  return sha256_hex(built_.hash + plan_.to_json().dump());
}

bool Evaluation::take_tolerances() {
  const std::string name = request_.value("tolerance", "calibrated");
  Result<Tolerances> found = tolerances(name, *session_->calibration(), session_->layouts().outputs.tensors.size());
  if (!found) {
    return void_for(Stage::verify, found.failure());
  }
  tolerances_ = std::move(*found);
  if (purpose_ != Purpose::verdict) {
    verdict_.evidence["sets"] = "visible";
  }
  return true;
}

bool Evaluation::verify_on(const std::vector<std::size_t>& sets) {
  Json seeds = Json::array();
  for (const std::size_t set : sets) {
    seeds.push_back(seed_of(set));
    if (!verified(set)) {
      return false;
    }
  }
  verdict_.evidence["seeds"] = seeds;
  return true;
}

bool Evaluation::wrong(Stage stage, std::size_t set, Reason reason, std::vector<Mismatch> mismatches) {
  const Layouts& layouts = session_->layouts();
  verdict_.evidence["wrong_set"] = set;
  verdict_.fail(Outcome::wrong, stage, reason, text_of(mismatches.front(), layouts.inputs, layouts.state));
  mismatches_ = std::move(mismatches);
  return false;
}

bool Evaluation::void_for(Stage stage, const Failure& failure) {
  verdict_.fail(stage, blame_host(failure));
  return false;
}

bool Evaluation::times_wanted() {
  return wants_times(request_, purpose_, *session_->calibration(), verdict_);
}

Audience Evaluation::audience() const {
  return audience_of(request_, purpose_);
}

std::vector<std::string> Evaluation::opponents() const {
  return *opponents_of(request_);  // the service has refused other words
}

// What the candidate's first block says against the known reading of each baseline.
Decision Evaluation::read_cached(Decision::Rules rules, const std::vector<double>& samples, bool steady) {
  Decision decision(rules, verdict_.slack_s);
  decision.first_block(samples, steady);
  for (const std::string& kind : opponents()) {
    if (const Baseline* const known = cached(kind)) {
      decision.baseline(kind, *known);
    } else {
      decision.unavailable(kind, why_unavailable(kind));
    }
  }
  decision.write_times(verdict_);
  return decision;
}

// Blocks of the baselines, a block of the candidate in a fresh process, blocks of the baselines, and so on until none
// is open: a block of the candidate stands in a bracket of each baseline. It ends early where a block was disturbed.
// False when the candidate failed in one, or a baseline for a reason of ours.
bool Evaluation::brackets(Decision& decision) {
  bool passed = feed(decision, &Decision::before);
  while (passed && !disturbed() && !decision.open().empty()) {
    const std::optional<double> block = bracket_block();
    if (!block) {
      return false;
    }
    if (!disturbed()) {
      decision.candidate_block(*block);
      passed = feed(decision, &Decision::after);
    }
  }
  return passed;
}

// A block of each baseline that is open, until one was disturbed.
bool Evaluation::feed(Decision& decision, void (Decision::*with)(const std::string&, double)) {
  for (const std::string& kind : decision.open()) {
    if (disturbed()) {
      break;
    }
    const Result<double> block = baseline_block(kind);
    if (block) {
      (decision.*with)(kind, *block);
    } else if (goes_on_without(kind, block.failure())) {
      decision.lost(kind, block.failure().message);
    } else {
      return false;
    }
  }
  return true;
}

Json Evaluation::answer() {
  if (purpose_ == Purpose::verdict) {
    return answer_of(verdict_, purpose_, "");
  }
  if (purpose_ == Purpose::profile && verdict_.ok()) {
    Json profile = answer_of(verdict_, purpose_, profile_text(verdict_, profile_facts()));
    complete_profile(profile);
    return profile;
  }
  const Layouts* const layouts = session_ ? &session_->layouts() : nullptr;
  return answer_of(verdict_, purpose_, verify_text(verdict_, batch_ ? batch_->verified : 0, mismatches_, layouts));
}

}  // namespace khost::judge
