// A verdict has a `stage` of its own (task, build, plan, verify, time) while a row's `stage` is the recipe's. In the
// table the verdict's is `judge_stage`; these functions translate in both directions. Pure.
#pragma once

#include "host/base/json.h"

namespace khost {

// {stage, step, …, verdict = {stage, status, …}} -> one flat row; a record without `verdict` is a row already.
Json flatten_verdict(const Json& record);
// The row of the verdict that came inside a trajectory, with the trajectory's stage, step, task, policy, reward.
Json verdict_of_trajectory(const Json& verdict, const Json& trajectory);
// The verdict as it was inside the trajectory.
Json nested_verdict(Json row);

}  // namespace khost
