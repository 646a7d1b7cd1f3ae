#include "sandbox/judge/service/request.h"

#include "sandbox/judge/evaluation/blame.h"

namespace khost::judge {
namespace {

// What a request says under a key, as text for a message where it is no word; `absent` where it says nothing.
std::string word_of(const Json& request, const char* key, const char* absent) {
  const auto given = request.find(key);
  if (given == request.end()) {
    return absent;
  }
  return given->is_string() ? given->get<std::string>() : given->dump();
}

}  // namespace

std::map<std::string, std::string> candidate_files(const Json& files) {
  std::map<std::string, std::string> result;
  for (const auto& [path, text] : files.items()) {
    if (text.is_string() && (path.rfind("kernels/", 0) == 0 || path == "model_new.py")) {
      result[path] = text.get<std::string>();
    }
  }
  return result;
}

bool wants_times(const Json& request, Purpose purpose) {
  return purpose == Purpose::profile || (purpose == Purpose::verdict && request.value("measure", true));
}

bool wants_times(const Json& request, Purpose purpose, const Calibration& task, Verdict& verdict) {
  const bool replayable = purpose == Purpose::verdict && task.constant;
  if (replayable && wants_times(request, purpose)) {
    verdict.unresolved(SpeedReason::constant_task);
  }
  return !replayable && wants_times(request, purpose);
}

Audience audience_of(const Json& request, Purpose purpose) {
  const bool timed = purpose == Purpose::verdict && wants_times(request, purpose);
  return timed ? Audience::verdict : Audience::verification;
}

Result<std::string> target_of(const Json& request) {
  const std::string word = word_of(request, "target", "cpu");
  if (word == "cpu" || word == "cuda") {
    return word;
  }
  return Failure{"target = " + word + ": cpu or cuda expected", "bad_input"};
}

Result<std::vector<std::string>> opponents_of(const Json& request) {
  const std::string target = request.value("target", "cpu");
  const std::string word = word_of(request, "against", "both");
  if (word == "both") {
    return std::vector<std::string>{"eager", "compile"};
  }
  if (word == "eager" || word == "compile" || (word == "self" && target == "cpu")) {
    return std::vector<std::string>{word};
  }
  return Failure{"against = " + word + ": both, eager or compile expected" +
                     (target == "cpu"  ? ", or self"
                      : word == "self" ? "; target " + target + " has no self"
                                       : ""),
                 "bad_input"};
}

Result<std::string> rules_of(const Json& request) {
  const std::string word = word_of(request, "rules", "own");
  if (word == "own" || word == "mixed") {
    return word;
  }
  return Failure{"rules = " + word + ": own or mixed expected", "bad_input"};
}

bool can_judge(const Json& request, const Calibration& task, Verdict& verdict) {
  const std::string name = request.value("tolerance", "calibrated");
  describe(name, task, verdict.evidence);
  const Status apart = tells_apart(name, task);
  if (!apart) {
    verdict.fail(Stage::task, blame_task(apart.failure()));
  }
  return static_cast<bool>(apart);
}

Json answer_of(const Verdict& verdict, Purpose purpose, const std::string& text) {
  Json result = verdict.to_json();
  if (purpose != Purpose::verdict) {
    result["kind"] = purpose == Purpose::profile ? "profile" : "verify";
    result["ok"] = verdict.ok();
    result["text"] = text;
  }
  return result;
}

}  // namespace khost::judge
