-- Whether a task of a pipeline is worth training or judging a policy on: the judge checks it on the run's target, and
-- the rubric of admission decides by what the check says.

local admission = require "rubrics.admission"

local admit = {}

-- Failures of a check that are the task's own.
local FAULT_OF_TASK = { bad_task = true, timeout = true, died = true }

--- Asks for a check and decides. A task may hold an operator that changes nothing: to leave it out is a lesson too.
---@async
---@param judging table      judge.client
---@param task {source: string}
---@param eager_ms number[]  least and most of a call in eager mode
---@return boolean keep, string reason, table facts   reason: a flaw of suites.health, "too_fast", "judge_failed", …
function admit.task(judging, task, eager_ms)
  local facts = judging:check(task, eager_ms)
  if facts.failure and not FAULT_OF_TASK[facts.failure.code] then
    return false, "judge_failed", facts
  end
  local keep, reason = admission.eager(facts, { eager_ms = eager_ms, idle_operators = true })
  return keep, reason, facts
end

return admit
