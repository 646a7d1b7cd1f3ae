// What the evaluations of both targets have in common: which files of a request count, whether times are
// asked for, and the form of an answer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/judge/task/sets.h"
#include "sandbox/judge/values/calibrated.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge {

// A verdict is made on secret sets. What an agent is told (verify, profile) is about visible ones, and feeds no reward.
enum class Purpose { verdict, verify, profile };

// The kernels and model_new.py of a request's `files`; whatever else a workspace holds is the skill's.
std::map<std::string, std::string> candidate_files(const Json& files);

// Whether the request asks for times: a profile does, a verdict unless `measure` is false.
bool wants_times(const Json& request, Purpose purpose);
// The same of a task that is open: no verdict has times of one whose inputs and state hold nothing random, since an
// answer can be replayed there. The verdict then says so.
bool wants_times(const Json& request, Purpose purpose, const Calibration& task, Verdict& verdict);

// Which secret sets a task has at least when it is opened for a request. Of those an agent's question uses none.
Audience audience_of(const Json& request, Purpose purpose);

// On which target, of the request's `target`: "cpu" (the default) or "cuda". Failure: bad_input for another word.
Result<std::string> target_of(const Json& request);

// What the candidate's time is compared with, by the request's `against`: "both" (eager and compile, the default),
// "eager", "compile", or "self", the candidate as its own baseline, which only target cpu has. Failure: bad_input for
// another word.
Result<std::vector<std::string>> opponents_of(const Json& request);

// The rule set that a candidate is judged by, of the request's `rules`: "own" (the default), by which nothing but its
// own kernels computes, or "mixed", by which torch operators may stand beside them (evaluation_mixed.cpp). Failure:
// bad_input for another word.
Result<std::string> rules_of(const Json& request);

// What a verdict's evidence says of the task's bounds (calibrated.h: describe). False, with the reason in the verdict,
// where it could tell nobody apart by them.
bool can_judge(const Json& request, const Calibration& task, Verdict& verdict);

// The verdict as JSON; for an agent also "kind", "ok" and "text".
Json answer_of(const Verdict& verdict, Purpose purpose, const std::string& text);

}  // namespace khost::judge
