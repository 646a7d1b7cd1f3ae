-- What is claimed of a published solution beside what is measured, with the reason for the difference.

local json = require "khost.json"
local verdicts = require "judge.verdict"

local rejudged = {}

local NEAR = 1.1  -- two speed-ups within so much of each other are the same: machines differ

-- Classes of outcomes, in the order of a table.
rejudged.CLASSES = {
  { "as_claimed", "right, and as fast as claimed" },
  { "faster", "right, and faster than claimed" },
  { "slower", "right, but slower than claimed" },
  { "right", "right; no speed is claimed or none was measured" },
  { "right_against_claim", "right, although it is published as wrong" },
  { "wrong_as_claimed", "not right, as published" },
  { "not_built", "claimed right, does not build" },
  { "wrong", "claimed right, computes something else" },
  { "rule", "claimed right, breaks a rule" },
  { "failed", "claimed right, crashes, hangs or lacks memory" },
  { "not_judged", "the task or the machine failed: nothing is said" },
}

local OF_STATUS = { build_failed = "not_built", wrong = "wrong", violation = "rule", suspect = "rule" }

-- The line of a compiler's words that says what is wrong.
local function first_error(detail)
  for line in detail:gmatch("[^\n]+") do
    if line:find("error", 1, true) then
      return line
    end
  end
  return detail:match("[^\n]+") or ""
end

local function speed_of(claimed, verdict)
  for _, side in ipairs { "eager", "compile" } do
    local measured = verdict.speedup and verdict.speedup[side]
    if claimed[side] and measured then
      return side, claimed[side], measured
    end
  end
  local measured = verdict.times and verdict.times.candidate_s
  if claimed.candidate_s and measured then
    -- Times compare the other way round.
    return "time", claimed.candidate_s, measured
  end
end

local function compared(claimed, verdict)
  local side, said, measured = speed_of(claimed, verdict)
  if not side then
    return "right", "right; " .. (verdict.times and verdict.times.candidate_s and "no speed is claimed"
      or "it was not timed")
  end
  local ratio = side == "time" and said / measured or measured / said
  local words = side == "time" and ("%.3g ms claimed, %.3g ms here"):format(said * 1e3, measured * 1e3)
    or ("%.2fx of %s claimed, %.2fx here"):format(said, side == "eager" and "eager" or "torch.compile", measured)
  if verdict.speed == "unresolved" then
    return "right", ("right; the speed is unresolved (%s): %s"):format(verdict.speed_reason or "no reason", words)
  elseif ratio > NEAR then
    return "faster", words
  elseif ratio < 1 / NEAR then
    return "slower", words .. ": other machine, or inputs that are new in every timed call"
  end
  return "as_claimed", words
end

--- The class of a difference, and the reason in words.
---@param claimed table    published.lua
---@param verdict table
---@return string class, string reason
function rejudged.difference(claimed, verdict)
  local detail = verdict.detail or ""
  local reason = verdict.reason ~= "" and verdict.reason or verdict.status
  if not verdicts.counts(verdict) then
    return "not_judged", ("%s (%s): %s"):format(verdict.status, reason, detail:match("[^\n]*"))
  elseif verdicts.passed(verdict) then
    if claimed.correct == false then
      return "right_against_claim", "right on every set of inputs here, published as wrong"
    end
    return compared(claimed, verdict)
  end
  local words = ("%s: %s"):format(reason, verdict.status == "build_failed" and first_error(detail)
    or detail:match("[^\n]*"))
  if claimed.correct == false then
    return "wrong_as_claimed", words
  end
  return OF_STATUS[verdict.status] or "failed", words
end

local function times(value)
  return value and ("%.2fx"):format(value) or "-"
end

local function correct(value)
  return value == nil and "-" or value and "right" or "wrong"
end

--- A record of one solution.
---@param solution table
---@param verdict table
---@return table
function rejudged.record(solution, verdict)
  local class, reason = rejudged.difference(solution.claimed, verdict)
  return { task = solution.name, level = solution.level, sample = solution.sample, claimed = solution.claimed,
    measured = { status = verdict.status, stage = verdict.stage, reason = verdict.reason, detail = verdict.detail,
      correct = verdicts.passed(verdict), times = verdict.times, speedup = verdict.speedup, speed = verdict.speed },
    difference = class, why = reason, rules = verdict.rules or "own", own_share = verdict.own_share }
end

local SPLIT = 0.1  -- of the time in own kernels: with less, torch's operators are what was timed

-- Rows of those that are right by their own kernels' share, where the rule set allows torch's operators.
local function shares(list)
  local rows, rules = { { ("own kernels take %.0f %% of the time or more"):format(100 * SPLIT), 0 },
    { ("own kernels take less than %.0f %%"):format(100 * SPLIT), 0 }, { "the share was not measured", 0 } }, "own"
  for _, one in ipairs(list) do
    rules = one.rules or rules
    if one.measured.correct then
      local row = not one.own_share and 3 or one.own_share >= SPLIT and 1 or 2
      rows[row][2] = rows[row][2] + 1
    end
  end
  for _, row in ipairs(rows) do row[2] = tostring(row[2]) end
  return rules, rules == "mixed" and { title = "right by the rule set mixed", columns = { "share", "count" },
    rows = rows } or nil
end

--- Two tables: the solutions, and how many there are of each kind; by the rule set `mixed` a third splits those that
--- are right by their own kernels' share of the time.
---@param list table[]   records
---@return {title: string, columns: string[], rows: string[][]}[]
function rejudged.tables(list)
  local rows, counts = {}, {}
  for index, one in ipairs(list) do
    local speedup = one.measured.speedup or {}
    rows[index] = { one.task .. (one.sample > 0 and (" sample %d"):format(one.sample) or ""),
      correct(one.claimed.correct), times(one.claimed.eager), times(one.claimed.compile), one.measured.status,
      times(speedup.eager), times(speedup.compile), (one.why:gsub("%s+", " ")):sub(1, 160) }
    counts[one.difference] = (counts[one.difference] or 0) + 1
  end
  local kinds = {}
  for _, class in ipairs(rejudged.CLASSES) do
    kinds[#kinds + 1] = counts[class[1]] and { class[2], tostring(counts[class[1]]) } or nil
  end
  kinds[#kinds + 1] = { "all", tostring(#list) }
  local rules, split = shares(list)
  return { { title = ("claimed and measured (rules %s)"):format(rules), columns = { "task", "claimed",
    "of eager", "of compile", "measured", "of eager", "of compile", "why" }, rows = rows },
    { title = ("differences (rules %s)"):format(rules), columns = { "outcome", "count" }, rows = kinds }, split }
end

--- Records as JSON lines.
---@param list table[]
---@return string
function rejudged.jsonl(list)
  local lines = {}
  for index, one in ipairs(list) do
    lines[index] = json.encode(one) .. "\n"
  end
  return table.concat(lines)
end

return rejudged
