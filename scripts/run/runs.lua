-- Finding and opening runs for the commands that read them.

local alarms = require "report.alarms"
local config = require "khost.config"
local fs = require "khost.fs"
local json = require "khost.json"
local metrics = require "evaluation.metrics"
local store = require "khost.store"

local runs = {}

--- Where runs go on this machine.
---@return string
function runs.root()
  local c = config.load {}
  local folder = c and c.machine.runs or "runs"
  return folder:sub(1, 1) == "/" and folder or fs.root() .. "/" .. folder
end

--- Opens a run for reading: by path, id, part of an id, or the newest.
---@param name? string
---@return khost.Store|nil, string? message
function runs.open(name)
  local folder, message = store.find(runs.root(), name)
  if not folder then
    return nil, message
  end
  return store.open(folder, { read_only = true })
end

--- A number as people read it: four digits, no trailing zeros; "-" for nothing.
---@param value any
---@return string
function runs.number(value)
  if type(value) ~= "number" then
    return value == nil and "-" or tostring(value)
  end
  if value == math.floor(value) and math.abs(value) < 1e9 then
    return ("%d"):format(value)
  end
  return ("%.4g"):format(value)
end

--- Seconds as people read them.
---@param seconds? number
---@return string
function runs.duration(seconds)
  if not seconds then
    return "-"
  elseif seconds < 1e-3 then
    return ("%.1f us"):format(seconds * 1e6)
  elseif seconds < 1 then
    return ("%.2f ms"):format(seconds * 1e3)
  elseif seconds < 60 then
    return ("%.1f s"):format(seconds)
  end
  return ("%d min %02d s"):format(math.floor(seconds / 60), math.floor(seconds % 60))
end

--- Stages in the order in which they began, with what they made. `started_s` and `finished_s` are seconds since
--- 1970; `spent` has seconds by what a stage spent them on, where it said so.
---@param run khost.Store
---@return {stage: string, status: string, attempts: integer, started_s: number, finished_s?: number, seconds?: number,
---trajectories: integer, verdicts: integer, reward?: number, tokens?: number, turns?: number, spent?: table}[]
function runs.stages(run)
  local rows = assert(run:query [[
    SELECT s.name AS stage, s.status AS status, s.attempts AS attempts, s.started_s AS started_s,
      s.finished_s AS finished_s, s.finished_s - s.started_s AS seconds, json_extract(s.result, '$.spent') AS spent,
      (SELECT count(*) FROM verdicts v WHERE v.stage = s.name) AS verdicts,
      coalesce(t.trajectories, 0) AS trajectories, t.reward AS reward, t.tokens AS tokens, t.turns AS turns
    FROM stages s LEFT JOIN (SELECT stage, count(*) AS trajectories, avg(reward) AS reward, avg(token_count) AS tokens,
      avg(turn_count) AS turns FROM trajectories GROUP BY stage) t ON t.stage = s.name
    ORDER BY s.started_s]])
  for _, row in ipairs(rows) do
    row.spent = row.spent and json.decode(row.spent)
  end
  return rows
end

-- What the tables of a run are made of; `show` prints them and `report` draws them.
local TABLES = {
  { title = "Stages", rows = runs.stages,
    columns = { "stage", "status", "attempts", "seconds", "trajectories", "verdicts", "reward", "tokens", "turns" } },
  { title = "Tasks", sql = [[
      SELECT coalesce(split, '') AS split, status, coalesce(reason, '') AS reason, count(*) AS tasks,
        min(eager_s) AS least_eager_s, max(eager_s) AS most_eager_s
      FROM tasks GROUP BY split, status, reason ORDER BY status DESC, tasks DESC]],
    columns = { "split", "status", "reason", "tasks", "least_eager_s", "most_eager_s" } },
  { title = "Trajectories by how they ended", sql = [[
      SELECT stage, status, coalesce(reason, '') AS reason, count(*) AS trajectories, avg(reward) AS reward
      FROM trajectories GROUP BY stage, status, reason ORDER BY min(id), trajectories DESC]],
    columns = { "stage", "status", "reason", "trajectories", "reward" } },
  { title = "Verdicts", sql = [[
      SELECT stage, status, coalesce(judge_stage, '') AS judge_stage, coalesce(reason, '') AS reason,
        count(*) AS verdicts
      FROM verdicts GROUP BY stage, status, judge_stage, reason ORDER BY min(id), verdicts DESC]],
    columns = { "stage", "status", "judge_stage", "reason", "verdicts" } },
  { title = "Verdicts that should not be there, or that a person should look at", rows = alarms.of,
    columns = { "level", "stage", "status", "reason", "count", "text" } },
  { title = "Correct and faster, by policy", rows = function(run) return runs.rates(run) end,
    columns = { "stage", "policy", "verdicts", "pass_rate", "faster_eager", "faster_compile" } },
  { title = "Scripts that scored", sql = [[
      SELECT substr(m.script_hash, 1, 12) AS hash, coalesce(s.path, '') AS path, m.stage AS stage,
        min(m.step) AS first_step, max(m.step) AS last_step
      FROM (SELECT script_hash, stage, step FROM metrics UNION ALL SELECT script_hash, stage, step FROM trajectories) m
      LEFT JOIN scripts s ON s.hash = m.script_hash
      WHERE m.script_hash IS NOT NULL GROUP BY m.script_hash, m.stage ORDER BY first_step]],
    columns = { "hash", "path", "stage", "first_step", "last_step" } },
}

local function yes(value)
  return value == 1 or value == true
end

--- Pass and faster rates by stage and policy, of stored verdicts that count, in the order of their first verdicts.
---@param run khost.Store
---@return {stage: string, policy: string, verdicts: integer, pass_rate: number, faster_eager: number, faster_compile:
---number}[]
function runs.rates(run)
  local groups, order = {}, {}
  for _, row in ipairs(assert(run:query [[SELECT coalesce(stage, '') AS stage, coalesce(policy, '') AS policy, correct,
      faster_eager, faster_compile FROM verdicts WHERE counts <> 'not_counted' ORDER BY id]])) do
    local key = row.stage .. "\n" .. row.policy
    if not groups[key] then
      groups[key], order[#order + 1] = { stage = row.stage, policy = row.policy }, key
    end
    table.insert(groups[key], { task = "?", correct = yes(row.correct), faster = { eager = yes(row.faster_eager),
      compile = yes(row.faster_compile) } })
  end
  local list = {}
  for index, key in ipairs(order) do
    local group = groups[key]
    local summary = metrics.summary(group)
    list[index] = { stage = group.stage, policy = group.policy, verdicts = #group, pass_rate = summary.pass.value,
      faster_eager = summary.faster.eager.value, faster_compile = summary.faster.compile.value }
  end
  return list
end

--- The tables of a run: {title, columns, rows of texts}; empty ones are left out.
---@param run khost.Store
---@return {title: string, columns: string[], rows: string[][]}[]
function runs.tables(run)
  local out = {}
  for _, definition in ipairs(TABLES) do
    local rows = {}
    for _, row in ipairs(definition.rows and definition.rows(run) or assert(run:query(definition.sql))) do
      local cells = {}
      for index, column in ipairs(definition.columns) do
        local is_time = column == "seconds" or column:match("_s$")
        cells[index] = is_time and runs.duration(row[column]) or runs.number(row[column])
      end
      rows[#rows + 1] = cells
    end
    if #rows > 0 then
      out[#out + 1] = { title = definition.title, columns = definition.columns, rows = rows }
    end
  end
  return out
end

--- Tables in a stage's result: {tables = { {title, columns, rows}, … }} is how a stage adds its own.
---@param run khost.Store
---@return {title: string, columns: string[], rows: any[][]}[]
function runs.stage_tables(run)
  local out = {}
  for _, stage in run:each("stages") do
    local result = type(stage.result) == "table" and stage.result or {}
    for _, tab in ipairs(type(result.tables) == "table" and result.tables or {}) do
      local rows = {}
      for index, row in ipairs(tab.rows or {}) do
        rows[index] = {}
        for cell, value in ipairs(row) do
          rows[index][cell] = runs.number(value)
        end
      end
      out[#out + 1] = { title = stage.name .. ": " .. tab.title, columns = tab.columns, rows = rows }
    end
  end
  return out
end

return runs
