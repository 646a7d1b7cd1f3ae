-- The reward watch: verdicts that the judge should never give, or that contradict themselves. A reward that rests on
-- one of them is not to be trusted, so the page says so at its top.

local json = require "khost.json"
local verdicts = require "judge.verdict"

local alarms = {}

-- Stages that look for broken tasks: a task's fault is what they are there to find.
local LOOKING_FOR_TASKS = { synthesize = true, filter = true }

local function has(list, word)
  for _, item in ipairs(list) do
    if item == word then
      return true
    end
  end
  return false
end

-- Why a group of verdicts is worth a word: "alarm" (a reward on it is unsound) or "look" (a person should look). nil
-- for a good one.
local function complaint(row, filtered)
  local status, reason = verdicts.STATUS_OF[row.status], verdicts.REASON_OF[row.reason]
  if not status then
    return "alarm", ("the judge has no status '%s'"):format(row.status)
  elseif row.reason ~= "" and not reason then
    return "alarm", ("the judge has no reason '%s'"):format(row.reason)
  elseif reason and not (has(reason.statuses, row.status) and (row.judge_stage == ""
    or has(reason.stages, row.judge_stage))) then
    return "alarm", ("status %s at stage %s never has the reason '%s'"):format(row.status, row.judge_stage, row.reason)
  elseif row.correct ~= nil and (row.correct == 1) ~= (status.counts == "passed") then
    return "alarm", ("stored as %s although its status is %s"):format(row.correct == 1 and "correct" or "not correct",
      row.status)
  elseif row.faster == 1 and status.counts ~= "passed" then
    return "alarm", ("called faster than a baseline although its status is %s"):format(row.status)
  elseif row.rewarded == 1 and not status.scored then
    return "alarm", ("has a reward although %s verdicts pay none"):format(row.status)
  elseif status.fault == "host" then
    return "alarm", status.sentence .. (reason and (" (%s)"):format(reason.sentence) or "")
  elseif status.fault == "task" and not LOOKING_FOR_TASKS[row.stage] then
    local why = reason and reason.sentence or status.sentence
    if filtered then
      return "alarm", "the filter let a task through: " .. why
    end
    return "look", why
  elseif row.status == "suspect" then
    return "look", status.sentence
  end
end

--- Groups of verdicts to worry about, the gravest and most frequent first. `trajectory` is an example to read.
---@param run khost.Store
---@return {level: "alarm"|"look", stage: string, status: string, reason: string, text: string, count: integer,
---first_step?: integer, last_step?: integer, trajectory?: integer}[]
function alarms.of(run)
  local list = {}
  -- A run that judges tasks as they come, such as a suite's, may meet broken ones.
  local filtered = assert(run:query "SELECT count(*) AS n FROM stages WHERE name = 'filter'")[1].n > 0
  -- The stored table itself: the view `verdicts` derives its flags from the status, so it cannot show a contradiction.
  for _, row in ipairs(assert(run:query [[SELECT coalesce(stage, '') AS stage,
      CASE status WHEN 'policy' THEN 'violation' ELSE coalesce(status, '') END AS status,
      coalesce(judge_stage, '') AS judge_stage, coalesce(reason, '') AS reason, correct,
      coalesce(faster_eager, 0) OR coalesce(faster_compile, 0) AS faster, reward IS NOT NULL AS rewarded,
      count(*) AS count, min(step) AS first_step, max(step) AS last_step, min(trajectory) AS trajectory
      FROM main.verdicts GROUP BY 1, 2, 3, 4, 5, 6, 7]])) do
    local level, text = complaint(row, filtered)
    if level then
      list[#list + 1] = { level = level, stage = row.stage, status = row.status, reason = row.reason, text = text,
        count = row.count, first_step = row.first_step, last_step = row.last_step, trajectory = row.trajectory }
    end
  end
  table.sort(list, function(a, b)
    if a.level ~= b.level then
      return a.level < b.level
    elseif a.count ~= b.count then
      return a.count > b.count
    end
    return a.stage .. a.status .. a.reason < b.stage .. b.status .. b.reason
  end)
  return json.list(list)
end

return alarms
