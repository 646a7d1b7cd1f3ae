// A verdict has a `stage` of its own (task, build, plan, verify, time) while a row's `stage` is the recipe's. In the
// table the verdict's is `judge_stage`; these functions translate in both directions. Pure.
//
// Queries read verdicts through a view of the same name, which says what a status means by the judge's table, so that
// rates are counted in one way and runs that were written by earlier versions show the same rows as new ones.
#pragma once

#include <string>

#include "host/base/json.h"

namespace khost {

// {stage, step, …, verdict = {stage, status, …}} -> one flat row; a record without `verdict` is a row already.
Json flatten_verdict(const Json& record);
// The row of the verdict that came inside a trajectory, with the trajectory's stage, step, task, policy, reward.
Json verdict_of_trajectory(const Json& verdict, const Json& trajectory);
// The verdict as it was inside the trajectory.
Json nested_verdict(Json row);

// Makes the temporary view `verdicts` of this connection over the table main.verdicts, which may be read-only. `status`
// has today's word, `correct` and `faster_*` follow from it, and `counts` is passed, failed or not_counted.
std::string verdicts_view_sql();

}  // namespace khost
