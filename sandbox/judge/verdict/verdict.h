// The outcome of judging one candidate: status x stage x reason, times, and the evidence for them. The three words are
// set by enter(), fail() and pass() alone: the first failure stands, and whether the candidate is correct follows from
// the status. One thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "host/base/json.h"
#include "sandbox/judge/verdict/words.h"

namespace khost::judge {

// What is wrong, apart from the stage at which it was found.
struct Finding {
  Outcome status = Outcome::void_;
  Reason reason = Reason::unfinished;
  std::string text;  // for a person; names lines, elements, signals
};

class Verdict {
 public:
  Outcome status() const { return status_; }
  Stage stage() const { return stage_; }
  Reason reason() const { return reason_; }
  const std::string& detail() const { return detail_; }
  bool ok() const { return status_ == Outcome::ok; }
  bool correct() const { return counts_of(status_) == Counts::passed; }

  // The step that is begun; without effect once the candidate failed.
  void enter(Stage stage);
  // The first failure stands: later calls change nothing. Words that the table does not allow together make the verdict
  // void with reason host, and the text names them.
  void fail(Outcome status, Stage stage, Reason reason, std::string text);
  void fail(Stage stage, Finding finding);
  // Every step passed; without effect once something failed.
  void pass();

  Speed speed() const;
  SpeedReason speed_reason() const { return speed() == Speed::unresolved ? speed_reason_ : SpeedReason::none; }
  // Times were asked for and decided; without effect where they are unresolved.
  void measured();
  // Nothing may be said about speed: from now on no `faster` is true. The first reason stands.
  void unresolved(SpeedReason why);
  // Whether it is more than 5 % faster than a baseline: never so for what failed or whose speed is unresolved.
  bool is_faster(const std::string& baseline) const;

  std::map<std::string, double> times;    // candidate_s, eager_s, compile_s
  std::map<std::string, double> speedup;  // eager, compile; the candidate's time is charged with slack_s
  std::map<std::string, bool> faster;     // what the comparison decided; is_faster() says what counts
  double slack_s = 0;
  std::string rules = "own";  // the rule set that it was judged by: own or mixed
  // By `mixed`: which part of its time is that of its own kernels, 0 to 1, for readers; no decision rests on it.
  std::optional<double> own_share;
  Json evidence = Json::object();
  // task, build, plan, verify, time, …; on a GPU "wait" for it is a part of its own
  std::map<std::string, double> wall_s;

  // {status, stage, reason, detail, correct, rules, own_share, times, speedup, faster, speed, speed_reason, slack_s,
  // evidence, wall_s}; own_share only where there is one
  Json to_json() const;

 private:
  bool failed_ = false;
  Outcome status_ = Outcome::void_;
  Stage stage_ = Stage::task;
  Reason reason_ = Reason::unfinished;
  std::string detail_;
  Speed speed_ = Speed::none;
  SpeedReason speed_reason_ = SpeedReason::none;
};

}  // namespace khost::judge
