#include "sandbox/judge/verdict/verdict.h"

#include <utility>

#include "sandbox/jail/output_cut.h"

namespace khost::judge {
namespace {

// Of a text for people, which may repeat what a stranger wrote: verdicts are kept, sent and shown to agents. A
// compiler's text, which is cut where it is taken, is whole here.
constexpr std::size_t kMostDetail = 8192;

}  // namespace

void Verdict::enter(Stage stage) {
  if (!failed_) {
    stage_ = stage;
  }
}

void Verdict::fail(Outcome status, Stage stage, Reason reason, std::string text) {
  if (failed_) {
    return;
  }
  failed_ = true;
  stage_ = stage;
  if (status == Outcome::ok || !allowed(status, stage, reason)) {
    status_ = Outcome::void_;
    reason_ = Reason::host;
    detail_ = "the judge has no verdict of status " + std::string(word_of(status)) + " for reason '" +
              std::string(word_of(reason)) + "' at stage " + std::string(word_of(stage)) + ": " +
              sandbox::cut_middle(text, kMostDetail);
    return;
  }
  status_ = status;
  reason_ = reason;
  detail_ = sandbox::cut_middle(text, kMostDetail);
}

void Verdict::fail(Stage stage, Finding finding) {
  fail(finding.status, stage, finding.reason, std::move(finding.text));
}

void Verdict::pass() {
  if (!failed_) {
    status_ = Outcome::ok;
    reason_ = Reason::none;
  }
}

Speed Verdict::speed() const {
  return ok() ? speed_ : Speed::none;
}

void Verdict::measured() {
  if (speed_ == Speed::none) {
    speed_ = Speed::measured;
  }
}

void Verdict::unresolved(SpeedReason why) {
  if (speed_ != Speed::unresolved) {
    speed_ = Speed::unresolved;
    speed_reason_ = why;
  }
}

bool Verdict::is_faster(const std::string& baseline) const {
  const auto decided = faster.find(baseline);
  return speed() == Speed::measured && decided != faster.end() && decided->second;
}

Json Verdict::to_json() const {
  Json counted = Json::object();
  for (const auto& [baseline, decided] : faster) {
    counted[baseline] = is_faster(baseline);
  }
  Json json = {{"status", word_of(status_)},
               {"stage", word_of(stage_)},
               {"reason", word_of(reason_)},
               {"detail", detail_},
               {"correct", correct()},
               {"rules", rules},
               {"times", times},
               {"speedup", speedup},
               {"faster", counted},
               {"speed", word_of(speed())},
               {"speed_reason", word_of(speed_reason())},
               {"slack_s", slack_s},
               {"evidence", evidence},
               {"wall_s", wall_s}};
  if (own_share) {
    json["own_share"] = *own_share;
  }
  return json;
}

}  // namespace khost::judge
