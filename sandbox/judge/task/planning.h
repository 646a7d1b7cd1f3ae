// From a candidate's files to a plan that is bound to a task: recorded from model_new.py in the recorder's jail, or
// derived from the names of the one launcher's arguments. Any thread; recording takes about 0.1 s.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "sandbox/abi/plan.h"
#include "sandbox/build/build.h"
#include "sandbox/judge/task/session.h"
#include "sandbox/judge/task/zygote.h"

namespace khost::judge {

// Why a process that ran model_new.py has no answer. That process is the candidate's, so its words are of any form:
// `error` may be anything, and what is no text, too long or no line of a screen is left out of the message.
struct Complaint {
  std::string reason = "error";
  std::string message;  // with the file and, where it is told, the line
};
Complaint complaint_of(const Json& error);

// The largest answer of such a process, in bytes: a plan of 4,096 launches takes about a quarter of it. What JSON of
// empty lists needs in memory is fifty times its length.
inline constexpr std::size_t kMostRecorded = std::size_t{8} << 20;

struct PlanRequest {
  const std::map<std::string, std::string>& files;
  const sandbox::Built& built;
  const Session& session;
  const std::string& rules;  // own or mixed
};

// Codes: violation/WORD, plan, shape (outputs are not the reference's), limit (they take too much memory), bad_input;
// gone when the recorder is lost, host when it does not start.
// `recorder` is asked for only where there is a model_new.py.
Result<sandbox::Plan> plan_of(const PlanRequest& request, const std::function<Result<Zygote*>()>& recorder);
inline Result<sandbox::Plan> plan_of(const PlanRequest& request, Zygote& recorder) {
  return plan_of(request, [&]() -> Result<Zygote*> { return &recorder; });
}

// How many torch operators that compute the reference dispatches, counted on meta tensors as a candidate's are, in a
// process without code of a candidate's. Code `uncounted` where it does not run without data.
Result<int> reference_operators(const Session& session, Zygote& recorder);

}  // namespace khost::judge
