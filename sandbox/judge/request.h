// What the evaluations of both targets have in common: which files of a request count, whether times are
// asked for, and the form of an answer.
#pragma once

#include <map>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge {

// A verdict is made on secret sets. What an agent is told (verify, profile) is about visible ones, and feeds no reward.
enum class Purpose { verdict, verify, profile };

// The kernels and model_new.py of a request's `files`; whatever else a workspace holds is the skill's.
std::map<std::string, std::string> candidate_files(const Json& files);

// Whether the request asks for times: a profile does, a verdict unless `measure` is false.
bool wants_times(const Json& request, Purpose purpose);

// The verdict as JSON; for an agent also "kind", "ok" and "text".
Json answer_of(const Verdict& verdict, Purpose purpose, const std::string& text);

}  // namespace khost::judge
