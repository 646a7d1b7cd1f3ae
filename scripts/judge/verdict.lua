-- What a verdict means, by the judge's own table (`khost.judge`): whether it counts in a rate, may be scored, passed,
-- and which exit code it is. Rewards, tables, SQL and commands ask here, and nowhere else is a status compared for
-- that.

local judge = require "khost.judge"

local verdict = {}

--- The judge's tables themselves, for pages and documents that show all of them (scripts/meta/khost.judge.lua).
verdict.STATUSES, verdict.REASONS = judge.statuses, judge.reasons

local ROWS, REASONS = {}, {}
for _, row in ipairs(judge.statuses) do
  ROWS[row.word] = row
end
for _, row in ipairs(judge.reasons) do
  REASONS[row.word] = row
end
--- The same by word.
verdict.STATUS_OF, verdict.REASON_OF = ROWS, REASONS
-- Words of runs that were written before they were renamed.
local RENAMED = { policy = "violation" }
local PAYING = "calibrated"  -- the tolerance class that a reward may rest on

---@class VerdictRow
---@field status string
---@field evidence? table

--- The table's row of a verdict, or of a result that has its status; raises for a status that no table has.
---@param record VerdictRow
---@return {word: string, fault: string, counts: string, scored: boolean, exit_code: integer, sentence: string}
function verdict.row(record)
  local status = record.status
  local row = ROWS[status] or ROWS[RENAMED[status]]
  if not row then
    error(("a verdict has no status '%s'; known are those of khost.judge's statuses"):format(tostring(status)), 2)
  end
  return row
end

--- Whether it counts in rates: it says something about the candidate, good or bad.
---@param record VerdictRow
---@return boolean
function verdict.counts(record)
  return verdict.row(record).counts ~= "not_counted"
end

--- Whether the candidate is correct: by its status alone.
---@param record VerdictRow
---@return boolean
function verdict.passed(record)
  return verdict.row(record).counts == "passed"
end

--- Whether nothing is known because the judge or the machine failed.
---@param record VerdictRow
---@return boolean
function verdict.is_void(record)
  return verdict.row(record).fault == "host"
end

--- Whether a reward may be made of it; else why the episode is void. Passing by another tolerance than the calibrated
--- one is for published comparisons and pays nothing.
---@param record VerdictRow
---@return boolean scored, string? why
function verdict.scored(record)
  local row = verdict.row(record)
  if not row.scored then
    return false, ("verdict is %s (%s): %s"):format(record.status, record.reason or "no reason", row.sentence)
  end
  local tolerance = record.evidence and record.evidence.tolerance
  if tolerance ~= PAYING and (tolerance or row.counts == "passed") then
    return false, ("the verdict's tolerance is %s; only %s pays a reward"):format(tolerance or "not said", PAYING)
  end
  return true
end

--- Whether it is more than 5 % faster than a baseline, as the judge decided it.
---@param record table
---@param side string
---@return boolean
function verdict.is_faster(record, side)
  return verdict.passed(record) and record.speed ~= "unresolved" and (record.faster or {})[side] == true
end

--- How many times faster than a baseline; nil for what did not pass or was not timed.
---@param record table
---@param side string
---@return number|nil
function verdict.speedup(record, side)
  return verdict.passed(record) and (record.speedup or {})[side] or nil
end

--- The exit code of `khost evaluate`: 0 correct and what was required reached, 1 not, 3 no verdict on the kernel.
---@param record table
---@param required? {side: string, least: number}
---@return integer code, string? why   why it is another one than the status gives
function verdict.exit_code(record, required)
  local code = verdict.row(record).exit_code
  if code ~= 0 or not required then
    return code
  end
  local reached = verdict.speedup(record, required.side)
  local wanted = ("%s:%g was required"):format(required.side, required.least)
  if record.speed ~= "measured" or not reached then
    local why = record.speed_reason ~= "" and record.speed_reason or "no_baseline"
    return 3, ("%s, and the speed is %s (%s)"):format(wanted, tostring(record.speed), why)
  elseif reached < required.least then
    return 1, ("%s, %.3f was reached"):format(wanted, reached)
  end
  return 0
end

--- A verdict that no judge gave.
---@param status string
---@param stage string
---@param reason string   one that the table allows with this status and stage
---@param detail? string
---@return table
function verdict.blank(status, stage, reason, detail)
  local row, known = verdict.row { status = status }, REASONS[reason]
  local function has(list)
    for _, word in ipairs(list) do
      if word == status or word == stage then
        return true
      end
    end
  end
  if not known or not has(known.statuses) or not has(known.stages) then
    error(("a verdict of status %s at stage %s has no reason '%s'"):format(status, stage, tostring(reason)), 2)
  end
  return { status = status, stage = stage, reason = reason, detail = detail or "", correct = row.counts == "passed",
    times = {}, speedup = {}, faster = {}, speed = "none", speed_reason = "", evidence = {}, wall_s = {} }
end

return verdict
