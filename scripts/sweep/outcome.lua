-- The table of a sweep: each arm over its seeds, under the agent loop, with differences to the first arm.
--
-- Every arm is scored by the milestone reward, whatever it was trained on: rewards of different schemes have no common
-- unit.

local metrics = require "evaluation.metrics"
local milestone = require "rewards.milestone"
local paired = require "evaluation.paired"
local random = require "lib.random"
local store = require "khost.store"
local verdicts = require "judge.verdict"

local outcome = {}

outcome.COLUMNS = { "arm", "seeds", "answers", "pass", "reward", "timed tasks: reward", "faster than eager",
  "faster than compile", "x eager", "x compile", "reward, difference to the first (95 %)", "the same of timed tasks" }

local POLICY = "agentic"  -- the last model of the pipeline
local LOOP = { [1] = true, [2] = true }  -- the last digit of evaluate's steps: held-out and timed tasks in the loop
local TIMED = 2

--- What the final model of a run did under the agent loop.
---@param folder string
---@param seed integer
---@return {task: string, verdict: table, timed: boolean, pass?: integer, reward?: number}[]
function outcome.of_run(folder, seed)
  local record = assert(store.open(folder, { read_only = true }))
  local rows = {}
  for id, row in record:each("trajectories", { where = { stage = "evaluate", policy = POLICY } }) do
    if LOOP[row.step % 10] then
      local verdict = record:get("trajectories", id).verdict
      if verdict and verdicts.counts(verdict) then
        rows[#rows + 1] = { task = ("%s, seed %d"):format(row.task, seed), verdict = verdict,
          timed = row.step % 10 == TIMED, pass = verdicts.passed(verdict) and 1 or 0,
          reward = (milestone.score { verdict = verdict }) }
      end
    end
  end
  record:close()
  return rows
end

local function column(rows, name)
  local list = {}
  for _, row in ipairs(rows) do
    list[#list + 1] = { task = row.task, value = row[name] }
  end
  return list
end

local function mean(rows, name)
  local list = {}
  for _, row in ipairs(rows) do
    list[#list + 1] = row[name]
  end
  return metrics.mean(list)
end

local function of_timed_tasks(rows)
  local list = {}
  for _, row in ipairs(rows) do
    list[#list + 1] = row.timed and row or nil
  end
  return list
end

-- How much more the second rows earn, task by task.
local function difference(first, rows, name)
  local found = paired.difference(column(first, "reward"), column(rows, "reward"), random.stream("sweep " .. name))
  return found and ("%+.3f [%+.3f, %+.3f]"):format(found.mean, found.low, found.high) or "-"
end

local function speed_of(rows)
  local list = {}
  for _, row in ipairs(rows) do
    if row.verdict.speed and row.verdict.speed ~= "none" then
      list[#list + 1] = row.verdict
    end
  end
  return metrics.table1(list)
end

local function number(value, form)
  return value and (form or "%.3f"):format(value) or "-"
end

--- A row of the table for each arm. `rows_of` gives what outcome.of_run gave for all seeds of an arm.
---@param names string[]
---@param rows_of table<string, table[]>
---@param seeds table<string, integer>   how many seeds each arm has
---@return string[][]
function outcome.rows(names, rows_of, seeds)
  local out, first = {}, rows_of[names[1]]
  for index, name in ipairs(names) do
    local rows = rows_of[name]
    local timed, speed = of_timed_tasks(rows), speed_of(rows)
    local known = speed.tasks > 0
    out[index] = { name, tostring(seeds[name]), tostring(#rows), number(mean(rows, "pass")),
      number(mean(rows, "reward"), "%+.3f"), number(mean(timed, "reward"), "%+.3f"),
      number(known and speed.faster.eager), number(known and speed.faster.compile),
      number(speed.speedup.eager, "%.2f"), number(speed.speedup.compile, "%.2f"),
      index > 1 and difference(first, rows, name) or "-",
      index > 1 and difference(of_timed_tasks(first), timed, name .. " timed") or "-" }
  end
  return out
end

return outcome
